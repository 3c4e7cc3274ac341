// A walk drawn as a tree: the memories that were retrieved, each beneath the one whose link led
// to it, and those that were left out. Wide screens show it from left to right, narrow ones as an
// outline.

import { formatScore, shorten, showName } from "./format.js";
import { hierarchy, tree } from "./vendor/d3-hierarchy.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";

const ROW_HEIGHT = 42;
const BOX_HEIGHT = 32;
const COLUMN_GAP = 64;
const MARGIN = 12;
const INDENT = 24;

// Texts are in a monospaced font of 12.5 pixels.
const CHARACTER_WIDTH = 7.6;
const ORDER_WIDTH = 34;
const LIMIT_WIDTH = 74;
const MAX_LABEL_CHARACTERS = 60;

const ZOOM_STEP = 1.25;
const MIN_ZOOM = 0.1;
const MAX_ZOOM = 3;

// Below this, names can hardly be read, so a large drawing opens at its start instead.
const READABLE_ZOOM = 0.85;

// Browsers do not scroll to a part of a drawing that gets the focus.
const NEAREST = { block: "nearest", inline: "nearest" };

const narrow = matchMedia("(max-width: 44rem)");
const WIDE_CHARACTER =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\uff60]|\p{Emoji_Presentation}/gu;

// D3 lays trees out from top to bottom: `x` grows with the row and `y` with the column here.
const layOutRows = tree()
  .nodeSize([ROW_HEIGHT, 1])
  .separation(() => 1);

export function Drawing({ walk, chosen, onChoose }) {
  const root = hierarchy(buildTree(walk));
  if (narrow.matches) layOutOutline(root);
  else layOutColumns(root);

  const nodes = root.descendants();
  const size = measure(nodes);
  const edges = root.links().map((edge) => html`<${Edge} ...${edge} />`);
  const boxes = nodes.map(
    ({ x, y, data }) => html`
      <${Box} x=${x} y=${y} ...${data} isChosen=${data.name === chosen} onChoose=${onChoose} />
    `,
  );

  return html`<${Pane} size=${size}>${edges}${boxes}<//>`;
}

/**
 * Shows a drawing that can be zoomed, and moved by scrolling or dragging. It opens as a whole if
 * that can be read, and otherwise at its start, the middle of the left edge.
 */
function Pane({ size, children }) {
  const { top, width, height } = size;
  const pane = useRef();
  const anchor = useRef(); // the point of the drawing that stays where it is while zooming
  const [zoom, setZoom] = useState(1);

  const findFit = () => {
    // The pane is as high as what it shows, up to a limit.
    const maxHeight = Number.parseFloat(getComputedStyle(pane.current).maxHeight);
    return Math.min(pane.current.clientWidth / width, maxHeight / height, 1);
  };
  const zoomTo = (wanted, x = pane.current.clientWidth / 2, y = pane.current.clientHeight / 2) => {
    const { scrollLeft, scrollTop } = pane.current;
    anchor.current = { x, y, left: (scrollLeft + x) / zoom, top: (scrollTop + y) / zoom };
    setZoom(Math.min(Math.max(wanted, MIN_ZOOM), MAX_ZOOM));
  };
  const showStart = (wanted) => {
    const { clientHeight } = pane.current;
    anchor.current = { x: 0, y: clientHeight / 2, left: 0, top: -top };
    setZoom(wanted);
    scrollTo(pane.current, anchor.current, wanted);
  };

  useLayoutEffect(() => showStart(Math.max(findFit(), READABLE_ZOOM)), [width, height]);
  useLayoutEffect(() => scrollTo(pane.current, anchor.current, zoom), [zoom]);

  // Preact listens to wheels passively, and then the browser would zoom the whole page.
  useEffect(() => {
    const turn = (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const { left, top: edge } = pane.current.getBoundingClientRect();
      zoomTo(zoom * ZOOM_STEP ** (-event.deltaY / 100), event.clientX - left, event.clientY - edge);
    };
    pane.current.addEventListener("wheel", turn, { passive: false });
    return () => pane.current?.removeEventListener("wheel", turn);
  }, [zoom]);

  const press = ({ key, ctrlKey, metaKey, altKey }) => {
    if (ctrlKey || metaKey || altKey) return;
    if (key === "+") zoomTo(zoom * ZOOM_STEP);
    if (key === "-") zoomTo(zoom / ZOOM_STEP);
    if (key === "0") showStart(findFit());
  };

  return html`
    <div class="pane">
      <div class="zoom" role="group" aria-label="Zoom">
        <button onClick=${() => zoomTo(zoom / ZOOM_STEP)} aria-label="Zoom out">−</button>
        <button onClick=${() => zoomTo(zoom * ZOOM_STEP)} aria-label="Zoom in">+</button>
        <button onClick=${() => showStart(findFit())}>Fit</button>
        <button onClick=${() => showStart(1)}>Start</button>
      </div>
      <div
        class="drawing"
        tabindex="0"
        role="region"
        aria-label="The walk as a tree; scrolls; plus, minus and 0 zoom"
        ref=${pane}
        onKeyDown=${press}
        onPointerDown=${startDragging}
      >
        <svg
          viewBox="${-MARGIN} ${top} ${width} ${height}"
          width=${width * zoom}
          height=${height * zoom}
          role="group"
          aria-label="Memories in the order of retrieval"
        >
          ${children}
        </svg>
      </div>
    </div>
  `;
}

/** Scrolls so that a point of the drawing is at a place of the pane. */
function scrollTo(pane, { x, y, left, top }, zoom) {
  pane.scrollLeft = left * zoom - x;
  pane.scrollTop = top * zoom - y;
}

/** Moves the drawing with the mouse. Fingers scroll it anyway. */
function startDragging(event) {
  const pane = event.currentTarget;
  if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest(".box")) return;

  const left = pane.scrollLeft + event.clientX;
  const top = pane.scrollTop + event.clientY;
  const move = ({ clientX, clientY }) => pane.scrollTo(left - clientX, top - clientY);
  const stop = () => pane.removeEventListener("pointermove", move);

  pane.setPointerCapture(event.pointerId);
  pane.addEventListener("pointermove", move);
  pane.addEventListener("lostpointercapture", stop, { once: true });
}

/** Returns the tree: retrieved memories in their order, then those that were left out. */
function buildTree({ targetMemory, associatedMemories, metadata }) {
  const branches = new Map();

  for (const entry of [targetMemory, ...associatedMemories]) {
    const order = branches.size + 1;
    branches.set(entry.key, { ...label(entry.key, ORDER_WIDTH), entry, order, children: [] });
  }

  for (const { key, parent } of associatedMemories) {
    branches.get(parent).children.push(branches.get(key));
  }

  for (const cut of metadata.frontier) {
    branches.get(cut.from).children.push({ ...label(cut.key, LIMIT_WIDTH), cut, children: [] });
  }

  return branches.get(targetMemory.key);
}

/** Returns what a box says beside its number or limit, and how wide it is with that. */
function label(name, offset) {
  const text = shorten(showName(name), MAX_LABEL_CHARACTERS);
  const wide = text.match(WIDE_CHARACTER)?.length ?? 0;
  const width = offset + ([...text].length + wide) * CHARACTER_WIDTH + 10;

  return { name, text, offset, width };
}

/** Puts each depth into a column that is as wide as its widest box. */
function layOutColumns(root) {
  layOutRows(root);

  const widths = [];
  for (const { depth, data } of root) widths[depth] = Math.max(widths[depth] ?? 0, data.width);

  const starts = [0];
  for (const width of widths) starts.push(starts.at(-1) + width + COLUMN_GAP);
  for (const node of root) node.y = starts[node.depth];
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
  const ends = nodes.map((node) => node.y + node.data.width);
  const top = Math.min(...rows) - BOX_HEIGHT / 2 - MARGIN;
  const bottom = Math.max(...rows) + BOX_HEIGHT / 2 + MARGIN;

  return { top, height: bottom - top, width: Math.max(...ends) + 2 * MARGIN };
}

function Edge({ source, target }) {
  const { cut, entry } = target.data;
  const style = cut ? "edge cut" : "edge";

  if (narrow.matches) {
    const path = `M${source.y + INDENT / 2},${source.x + BOX_HEIGHT / 2}V${target.x}H${target.y}`;
    return html`<g class=${style} aria-hidden="true"><path d=${path} /></g>`;
  }

  const start = source.y + source.data.width;
  const end = target.y;
  const middle = (start + end) / 2;
  const score = formatScore((cut ?? entry).combinedScore);
  const path =
    `M${start},${source.x}` + `C${middle},${source.x} ${middle},${target.x} ${end},${target.x}`;

  return html`
    <g class=${style} aria-hidden="true">
      <path d=${path} />
      <text x=${end - 8} y=${target.x - 5} text-anchor="end">${score}</text>
    </g>
  `;
}

function Box({ x, y, name, text, offset, width, cut, entry, order, isChosen, onChoose }) {
  const title = describe({ name, cut, entry, order });
  const isFailed = entry && !entry.success;
  const style = ["box", cut && "cut", isFailed && "failed"].filter(Boolean).join(" ");
  const choose = () => onChoose(name);

  return html`
    <g
      class=${style}
      transform="translate(${y},${x})"
      tabindex="0"
      role="button"
      aria-pressed=${isChosen}
      aria-label=${title}
      onFocus=${(event) => event.currentTarget.scrollIntoView(NEAREST)}
      onClick=${choose}
      onKeyDown=${(event) => handleKey(event, choose)}
    >
      <title>${title}</title>
      <rect y=${-BOX_HEIGHT / 2} width=${width} height=${BOX_HEIGHT} rx="6" />
      <text class="order" x="8" y="4">${cut ? cut.cutBy : order}</text>
      <text x=${offset} y="4">${text}</text>
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
