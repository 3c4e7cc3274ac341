// A sample to look around in: stored in one call, and removed in one.

import { callAbility } from "./api.js";
import { remember } from "./undoing.js";

const TAG = "explorer-sample";

const MEMORIES = [
  {
    key: "sample/project/goals",
    type: "core",
    importance: "high",
    content: "Ship the payments service in spring. Ada decides what counts.",
    links: [
      { key: "sample/project/plan", link_weight: 0.9 },
      { key: "sample/people/ada", link_weight: 0.8 },
    ],
  },
  {
    key: "sample/project/plan",
    type: "task",
    content: "First the ledger, then refunds, then reports.",
    links: [{ key: "sample/decisions/storage", link_weight: 0.7 }],
  },
  {
    key: "sample/people/ada",
    type: "core",
    content: "Ada leads the project. She prefers short answers.",
    links: [{ key: "sample/people/grace", link_weight: 0.6 }],
  },
  {
    key: "sample/people/grace",
    type: "core",
    content: "Grace reviews everything that touches storage.",
    links: [{ key: "sample/decisions/storage", link_weight: 0.9 }],
  },
  {
    key: "sample/decisions/storage",
    type: "learning",
    content: "The ledger is kept in PostgreSQL, because two services write to it.",
    links: [{ key: "sample/decisions/backups", link_weight: 0.5 }],
  },
  {
    key: "sample/deploy/day",
    type: "learning",
    content: "We deploy the payments service on Tuesdays, never on Fridays.",
  },
  {
    key: "sample/deploy/days",
    type: "learning",
    content: "We deploy the payments service on Tuesdays and never on Fridays.",
  },
];

export const SAMPLE_SIZE = MEMORIES.length;

const QUERY = { tags: [TAG], archived: true, limit: 100, detail: "full" };

/** Counts the memories of the sample that are stored. */
export async function countSample() {
  const { total } = await callAbility("query_memories", { ...QUERY, limit: 1 });
  return total;
}

/** Stores the sample, and returns a notice as those of `undoing.js` are. */
export async function loadSample() {
  const stored = await remember(
    MEMORIES.map((memory) => ({ op: "store", tags: [TAG], ...memory })),
  );

  const undo = async () => {
    await remember(stored.map(({ id }) => ({ op: "delete", id, permanent: true })));
    return { text: "The sample is removed." };
  };
  return { text: "The sample is stored.", undo };
}

/** Deletes the memories of the sample, and returns a notice. */
export async function removeSample() {
  const { memories } = await callAbility("query_memories", QUERY);
  await remember(memories.map(({ id }) => ({ op: "delete", id, permanent: true })));

  const undo = async () => {
    await remember(memories.map(({ id, version }) => ({ op: "restore", id, version })));
    return { text: "The sample is back." };
  };
  return { text: "The sample is removed.", undo };
}
