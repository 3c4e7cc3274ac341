// All memories by the folders of their keys, each folder as large as what is in it.

import { linkTo } from "./address.js";
import { readView } from "./api.js";
import { formatCount, formatNumber, shorten, showName } from "./format.js";
import { useRequest } from "./hooks.js";
import { Name, RequestStatus } from "./parts.js";
import { hierarchy, treemap } from "./vendor/d3-hierarchy.js";
import { html } from "./vendor/htm-preact.js";

// Texts are in a monospaced font of 12.5 pixels.
const CHARACTER_WIDTH = 7.6;
const MIN_LABEL_WIDTH = 44;
const LINE_HEIGHT = 18;
const PADDING = 7;

const narrow = matchMedia("(max-width: 44rem)");

export function MemoryMap({ address, round }) {
  const { key: prefix } = address;
  const request = useRequest(() => readView("map", { prefix }), [prefix, round]);
  const { nodes = [], total, complete, others } = request.data ?? {};

  return html`
    <div class="headline"><h1 tabindex="-1">Map</h1></div>
    <p class="faint">
      Memories by the folders of their keys, which end at each slash. A folder opens its own map.
    </p>
    <${Trail} prefix=${prefix} />
    <${RequestStatus} request=${request} />
    ${
      request.data &&
      html`
        <p class="count" role="status">
          ${formatCount(total, "memory", "memories")}${!complete && " and more"}
          ${others > 0 && `; ${formatNumber(others)} in smaller parts are not drawn`}
        </p>
        <${Picture} nodes=${nodes} />
      `
    }
  `;
}

/** The folders around the map, outermost first. */
function Trail({ prefix }) {
  const names = prefix.split("/").slice(0, -1);
  const links = names.map((name, index) => {
    const folder = `${names.slice(0, index + 1).join("/")}/`;
    return html` / <a href=${linkTo("map", folder)}><${Name} of=${name} /></a>`;
  });

  return html`
    <nav aria-label="Folders"><a href=${linkTo("map")}>all</a>${links}</nav>
  `;
}

function Picture({ nodes }) {
  const [width, height] = narrow.matches ? [360, 560] : [1200, 640];
  const root = hierarchy({ children: nodes }).sum(({ count }) => count);
  const cells = treemap().size([width, height]).padding(2)(root).leaves();

  return html`
    <svg class="map" viewBox="0 0 ${width} ${height}" role="group" aria-label="Map">
      ${nodes.length > 0 && cells.map((cell) => html`<${Cell} ...${cell} />`)}
    </svg>
  `;
}

function Cell({ x0: left, y0: top, x1: right, y1: bottom, data }) {
  const { name, folder, count } = data;
  const width = right - left;
  const height = bottom - top;
  const counted = formatCount(count, "memory", "memories");
  const title = folder ? `${showName(name)}, ${counted}` : showName(name);

  const room = Math.floor((width - 2 * PADDING) / CHARACTER_WIDTH);
  const hasLabel = width >= MIN_LABEL_WIDTH && height >= LINE_HEIGHT + PADDING;
  const hasCount = folder && height >= 2 * LINE_HEIGHT + PADDING && counted.length <= room;

  return html`
    <a
      class=${folder ? "cell folder" : "cell"}
      href=${folder ? linkTo("map", folder) : linkTo("memory", data.key)}
      aria-label=${title}
    >
      <title>${title}</title>
      <rect x=${left} y=${top} width=${width} height=${height} rx="4" />
      ${
        hasLabel &&
        html`<text x=${left + PADDING} y=${top + LINE_HEIGHT}>${shorten(showName(name), room)}</text>`
      }
      ${
        hasCount &&
        html`<text class="size" x=${left + PADDING} y=${top + 2 * LINE_HEIGHT}>${counted}</text>`
      }
    </a>
  `;
}
