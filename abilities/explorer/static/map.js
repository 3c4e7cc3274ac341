// All memories by the folders of their keys, their types, categories or tags, each as large as what
// is in it.

import { linkTo, replaceParams } from "./address.js";
import { readView } from "./api.js";
import { formatCount, formatNumber, shorten, showName } from "./format.js";
import { useRequest, useSparingly } from "./hooks.js";
import { Name, RequestStatus, Select } from "./parts.js";
import { useSession } from "./session.js";
import { hierarchy, treemap } from "./vendor/d3-hierarchy.js";
import { html } from "./vendor/htm-preact.js";

// Texts are in a monospaced font of 12.5 pixels.
const CHARACTER_WIDTH = 7.6;
const MIN_LABEL_WIDTH = 44;
const LINE_HEIGHT = 18;
const PADDING = 7;

const CLUSTERS = [
  ["folder", "folder of the key"],
  ["type", "type"],
  ["category", "category"],
  ["tag", "tag"],
];

const narrow = matchMedia("(max-width: 44rem)");

export function MemoryMap({ address }) {
  const { round } = useSession();
  const { key: prefix, params } = address;
  const { by = "folder" } = params;
  const [section, shown] = useSparingly(round);
  const request = useRequest(
    () => shown !== null && readView("map", { prefix, by }),
    [prefix, by, shown],
  );
  const choose = (chosen) => replaceParams("map", "", { by: chosen });

  return html`
    <div class="headline"><h1 tabindex="-1">Map</h1></div>
    <form class="filters">
      <${Select} label="Memories by" options=${CLUSTERS} value=${by} onChange=${choose} />
    </form>
    ${by === "folder" && html`<${Trail} prefix=${prefix} />`}
    <div ref=${section}>
      <${RequestStatus} request=${request} />
      ${request.data && html`<${Clusters} ...${request.data} />`}
    </div>
  `;
}

function Clusters({ by, nodes, total, others, complete }) {
  return html`
    <p class="count" role="status">
      ${formatCount(total, "memory", "memories")}${!complete && " and more"}
      ${others > 0 && `; ${formatNumber(others)} in smaller parts are not drawn`}
    </p>
    <${Picture} by=${by} nodes=${nodes} />
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
    <nav class="trail" aria-label="Folders"><a href=${linkTo("map")}>all</a>${links}</nav>
  `;
}

function Picture({ by, nodes }) {
  const [width, height] = narrow.matches ? [360, 560] : [1200, 640];
  const root = hierarchy({ children: nodes }).sum(({ count }) => count);
  const cells = treemap().size([width, height]).padding(2)(root).leaves();

  return html`
    <svg class="map" viewBox="0 0 ${width} ${height}" role="group" aria-label="Map">
      ${nodes.length > 0 && cells.map((cell) => html`<${Cell} by=${by} ...${cell} />`)}
    </svg>
  `;
}

function Cell({ by, x0: left, y0: top, x1: right, y1: bottom, data }) {
  const { key, count } = data;
  const name = data.name || `no ${by}`;
  const width = right - left;
  const height = bottom - top;
  const counted = formatCount(count, "memory", "memories");
  const title = key === undefined ? `${showName(name)}, ${counted}` : showName(name);

  const room = Math.floor((width - 2 * PADDING) / CHARACTER_WIDTH);
  const hasLabel = width >= MIN_LABEL_WIDTH && height >= LINE_HEIGHT + PADDING;
  const hasCount =
    key === undefined && height >= 2 * LINE_HEIGHT + PADDING && counted.length <= room;

  return html`
    <a
      class=${key === undefined ? "cell folder" : "cell"}
      href=${findTarget(by, data)}
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

/** Returns the link to what a cell holds; null for memories without a label, which no filter has. */
function findTarget(by, { key, folder, label }) {
  if (key !== undefined) return linkTo("memory", key);
  if (folder !== undefined) return linkTo("map", folder);
  return label ? linkTo("memories", "", { [by]: label }) : null;
}
