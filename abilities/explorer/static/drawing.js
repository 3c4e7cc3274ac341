// A walk drawn as a tree: the memories that were retrieved, each beneath the one whose link led
// to it, and those that were left out. Wide screens show it from left to right, narrow ones as an
// outline.

import { shorten, showName } from "./format.js";
import { hierarchy, tree } from "./vendor/d3-hierarchy.js";
import { html } from "./vendor/htm-preact.js";

const COLUMN_WIDTH = 236;
const ROW_HEIGHT = 46;
const BOX_WIDTH = 170;
const BOX_HEIGHT = 32;
const MARGIN = 12;
const INDENT = 24;

// How many characters of a key fit into a box, beside its number or the limit that left it out.
const LABEL_CHARACTERS = 17;
const CUT_LABEL_CHARACTERS = 13;

const narrow = matchMedia("(max-width: 44rem)");

// D3 lays trees out from top to bottom: `x` grows with the row and `y` with the column here.
const layOutColumns = tree()
  .nodeSize([ROW_HEIGHT, COLUMN_WIDTH])
  .separation(() => 1);

export function Drawing({ walk, chosen, onChoose }) {
  const root = hierarchy(buildTree(walk));
  const layout = narrow.matches ? layOutOutline(root) : layOutColumns(root);

  const nodes = layout.descendants();
  const { top, width, height } = measure(nodes);
  const edges = layout.links().map((edge) => html`<${Edge} ...${edge} />`);
  const boxes = nodes.map(
    ({ x, y, data }) => html`
      <${Box} x=${x} y=${y} ...${data} isChosen=${data.name === chosen} onChoose=${onChoose} />
    `,
  );

  return html`
    <div class="drawing" tabindex="0" role="region" aria-label="The walk as a tree; scrolls">
      <svg
        viewBox="${-MARGIN} ${top} ${width} ${height}"
        width=${width}
        height=${height}
        role="group"
        aria-label="Memories in the order of retrieval"
      >
        ${edges}${boxes}
      </svg>
    </div>
  `;
}

/** Returns the tree: retrieved memories in their order, then those that were left out. */
function buildTree({ targetMemory, associatedMemories, metadata }) {
  const branches = new Map();

  for (const entry of [targetMemory, ...associatedMemories]) {
    const order = branches.size + 1;
    branches.set(entry.key, { name: entry.key, entry, order, children: [] });
  }

  for (const { key, parent } of associatedMemories) {
    branches.get(parent).children.push(branches.get(key));
  }

  for (const cut of metadata.frontier) {
    branches.get(cut.from).children.push({ name: cut.key, cut, children: [] });
  }

  return branches.get(targetMemory.key);
}

/** Gives each memory a row of its own, indented by its depth. */
function layOutOutline(root) {
  let row = 0;

  return root.eachBefore((node) => {
    node.x = row * ROW_HEIGHT;
    node.y = node.depth * INDENT;
    row += 1;
  });
}

function measure(nodes) {
  const rows = nodes.map((node) => node.x);
  const columns = nodes.map((node) => node.y);
  const top = Math.min(...rows) - BOX_HEIGHT / 2 - MARGIN;
  const bottom = Math.max(...rows) + BOX_HEIGHT / 2 + MARGIN;

  return { top, height: bottom - top, width: Math.max(...columns) + BOX_WIDTH + 2 * MARGIN };
}

function Edge({ source, target }) {
  const { cut, entry } = target.data;
  const style = cut ? "edge cut" : "edge";

  if (narrow.matches) {
    const path = `M${source.y + INDENT / 2},${source.x + BOX_HEIGHT / 2}V${target.x}H${target.y}`;
    return html`<g class=${style} aria-hidden="true"><path d=${path} /></g>`;
  }

  const start = source.y + BOX_WIDTH;
  const end = target.y;
  const middle = (start + end) / 2;
  const score = Number((cut ?? entry).combinedScore.toFixed(3));
  const path =
    `M${start},${source.x}` + `C${middle},${source.x} ${middle},${target.x} ${end},${target.x}`;

  return html`
    <g class=${style} aria-hidden="true">
      <path d=${path} />
      <text x=${end - 8} y=${target.x - 5} text-anchor="end">${score}</text>
    </g>
  `;
}

function Box({ x, y, name, cut, entry, order, isChosen, onChoose }) {
  const title = describe({ name, cut, entry, order });
  const isFailed = entry && !entry.success;
  const style = ["box", cut && "cut", isFailed && "failed"].filter(Boolean).join(" ");
  const label = shorten(showName(name), cut ? CUT_LABEL_CHARACTERS : LABEL_CHARACTERS);
  const choose = () => onChoose(name);

  return html`
    <g
      class=${style}
      transform="translate(${y},${x})"
      tabindex="0"
      role="button"
      aria-pressed=${isChosen}
      aria-label=${title}
      onClick=${choose}
      onKeyDown=${(event) => handleKey(event, choose)}
    >
      <title>${title}</title>
      <rect y=${-BOX_HEIGHT / 2} width=${BOX_WIDTH} height=${BOX_HEIGHT} rx="6" />
      <text class="order" x="8" y="4">${cut ? cut.cutBy : order}</text>
      <text x=${cut ? 66 : 34} y="4">${label}</text>
    </g>
  `;
}

function describe({ name: key, cut, entry, order }) {
  const name = showName(key);

  if (cut) return `${name}, left out by ${cut.cutBy}`;
  if (!entry.success) return `${order}. ${name}, could not be read`;
  return `${order}. ${name}`;
}

/** Chooses with Enter and space, and moves the focus from box to box with the arrow keys. */
function handleKey(event, choose) {
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];

  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    choose();
  } else if (step) {
    event.preventDefault();
    const boxes = [...event.currentTarget.ownerSVGElement.querySelectorAll(".box")];
    boxes[boxes.indexOf(event.currentTarget) + step]?.focus();
  }
}
