// Changes that can be undone. Each returns a notice, {text, undo}, once it is made; `undo` makes
// the change undone, and returns what to say then.

import { CallError, callAbility } from "./api.js";

const UNDONE = "It is as it was before.";

export async function archiveMemory({ id, key, version }) {
  const { version: archived } = await change("delete_memory", { id, if_version: version });

  const undo = async () => {
    await change("update_memory", { id, archived: false, if_version: archived });
    return { text: UNDONE, key };
  };
  return { text: "Archived.", undo };
}

/** Puts a newer memory that says the same in the place of one, which is archived. */
export function supersedeMemory({ id, version, other }) {
  const operation = { op: "supersede", id, new_key: other, if_version: version };
  return changeReversibly({ id, version }, [operation], "Replaced by the newer one.");
}

/** Removes one link, named by its target and type. */
export function removeLink({ id, version, other, link_type: type }) {
  const links = [{ key: other, type }];
  const operation = { op: "unlink", id, remove_links: links, if_version: version };
  return changeReversibly({ id, version }, [operation], "The link is removed.");
}

/** Lets a memory never expire. */
export function keepMemory({ id, version }) {
  const operation = { op: "update", id, expires_at: "", if_version: version };
  return changeReversibly({ id, version }, [operation], "It does not expire any more.");
}

/** Brings an archived memory back. */
export function reviveMemory({ id, version }) {
  const operation = { op: "update", id, archived: false, if_version: version };
  return changeReversibly({ id, version }, [operation], "Restored.");
}

/** Gives a memory another key; links to it follow. */
export async function renameMemory({ id, key, version }, to) {
  const { version: renamed } = await change("update_memory", { id, key: to, if_version: version });

  const undo = async () => {
    await change("update_memory", { id, key, if_version: renamed });
    return { text: UNDONE, key };
  };
  return { text: "Renamed.", undo };
}

/** Deletes a memory permanently. Only its history can bring it back. */
export async function deleteMemory({ id, key, version }) {
  await change("delete_memory", { id, permanent: true, if_version: version });

  const undo = async () => {
    await change("memory_restore", { id, version, if_version: 0 });
    return { text: UNDONE, key };
  };
  return { text: "Deleted.", undo };
}

/** Restores a version of a memory, given the page of its history that it was chosen from. */
export async function restoreVersion({ id, key, version: present }, version) {
  const restored = await change("memory_restore", { id, version, if_version: present ?? 0 });
  if (restored.version === present) return { text: `It is like version ${version} already.` };

  const undo = async () => {
    const name = { id, if_version: restored.version };
    if (present) await change("memory_restore", { ...name, version: present });
    else await change("delete_memory", { ...name, permanent: true });
    return { text: UNDONE, key };
  };
  return { text: `Version ${version} is restored.`, undo };
}

/** Changes a memory so that restoring its version undoes it. */
async function changeReversibly({ id, version }, operations, text) {
  await remember(operations);

  const undo = async () => {
    await remember([{ op: "restore", id, version }]);
    return { text: UNDONE };
  };
  return { text, undo };
}

/** Makes changes, all or none, and returns what each of them did. */
export async function remember(operations) {
  const request = { operations, atomic: true, detail: "full" };
  const { results } = await callAbility("remember", request);

  // The others are refused only because of this one.
  const failed = results.find(({ error }) => error && error.reason !== "rolled_back");
  if (failed) throw new CallError(failed.error);
  return results.map(({ data }) => data);
}

/** Makes a change, and returns its concise answer, which has the version that it made. */
function change(name, args) {
  return callAbility(name, { ...args, detail: "concise" });
}
