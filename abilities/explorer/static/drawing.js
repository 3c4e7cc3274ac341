// A walk as a picture: the tree of the ways on which memories were reached, and what was left out, in SVG. Wide
// screens show it from left to right, narrow ones as an outline.

import { hierarchy, tree } from "./vendor/d3-hierarchy.js";
import { html } from "./vendor/htm-preact.js";

const COLUMN = 236;
const ROW = 46;
const WIDTH = 170;
const HEIGHT = 32;
const MARGIN = 12;
const CHARS = 17;
const INDENT = 24;
const narrow = matchMedia("(max-width: 44rem)");

export function Drawing({ walked, chosen, onChoose }) {
  const laid = (narrow.matches ? outlined : across)(hierarchy(rooted(walked)));
  const nodes = laid.descendants();
  const top = Math.min(...nodes.map((node) => node.x)) - HEIGHT / 2 - MARGIN;
  const height = Math.max(...nodes.map((node) => node.x)) + HEIGHT / 2 + MARGIN - top;
  const width = Math.max(...nodes.map((node) => node.y)) + WIDTH + 2 * MARGIN;
  return html`<div class="drawing" tabindex="0" role="region" aria-label="The walk as a picture; scrolls">
    <svg viewBox="${-MARGIN} ${top} ${width} ${height}" width=${width} height=${height} role="group" aria-label="Memories by way of retrieval">
      ${laid.links().map((link) => html`<${Tie} ...${link} />`)}
      ${nodes.map((node) => html`<${Box} node=${node} chosen=${node.data.key === chosen} onChoose=${onChoose} />`)}
    </svg></div>`;
}

/** The tree: entries beneath their parents in the order of retrieval, then candidates that were cut. */
function rooted({ targetMemory, associatedMemories, metadata }) {
  const found = new Map();
  const add = (entry, order) => found.set(entry.key, { key: entry.key, entry, order, children: [] });
  [targetMemory, ...associatedMemories].forEach((entry, index) => add(entry, index + 1));
  for (const { key, parent } of associatedMemories) found.get(parent).children.push(found.get(key));
  for (const cut of metadata.frontier) found.get(cut.from).children.push({ key: cut.key, cut, children: [] });
  return found.get(targetMemory.key);
}

const across = tree().nodeSize([ROW, COLUMN]).separation(() => 1);

/** A row for each memory, indented by its depth. */
function outlined(root) {
  let row = 0;
  return root.eachBefore((node) => Object.assign(node, { x: (row++) * ROW, y: node.depth * INDENT }));
}

function Tie({ source, target }) {
  const { cut, entry } = target.data;
  if (narrow.matches) {
    const path = `M${source.y + INDENT / 2},${source.x + HEIGHT / 2}V${target.x}H${target.y}`;
    return html`<g class="tie ${cut ? "cut" : ""}" aria-hidden="true"><path d=${path} /></g>`;
  }
  const [x, y] = [source.y + WIDTH, target.y];
  const middle = (x + y) / 2;
  const score = (cut ?? entry).combinedScore;
  return html`<g class="tie ${cut ? "cut" : ""}" aria-hidden="true">
    <path d="M${x},${source.x}C${middle},${source.x} ${middle},${target.x} ${y},${target.x}" />
    <text x=${y - 8} y=${target.x - 5} text-anchor="end">${Number(score.toFixed(3))}</text></g>`;
}

function Box({ node, chosen, onChoose }) {
  const { key, cut, entry, order } = node.data;
  const kind = cut ? "cut" : entry.success ? "" : "failed";
  const said = cut ? `${key}, left out by ${cut.cutBy}` : `${order}. ${key}${entry.success ? "" : ", could not be read"}`;
  const letters = [...key];
  const room = cut ? CHARS - 4 : CHARS;
  const label = letters.length > room ? `${letters.slice(0, room - 1).join("")}…` : key;
  return html`<g class="box ${kind}" transform="translate(${node.y},${node.x})" tabindex="0" role="button" aria-pressed=${chosen}
      aria-label=${said} onClick=${() => onChoose(key)} onKeyDown=${(event) => pressed(event, () => onChoose(key))}>
    <title>${said}</title>
    <rect y=${-HEIGHT / 2} width=${WIDTH} height=${HEIGHT} rx="6" />
    <text class="order" x="8" y="4">${cut ? cut.cutBy : order}</text>
    <text x=${cut ? 66 : 34} y="4">${label}</text></g>`;
}

/** Enter and space choose; arrows move along the order in which the memories stand. */
function pressed(event, choose) {
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
