// Changes that can be undone. Each returns a notice, {text, undo}, once it is made; `undo` makes
// the change undone, and returns what to say then.

import { callAbility } from "./api.js";

const UNDONE = "It is as it was before.";

export async function archiveMemory({ id, key, version }) {
  const { version: archived } = await change("delete_memory", { id, if_version: version });

  const undo = async () => {
    await change("update_memory", { id, archived: false, if_version: archived });
    return { text: UNDONE, key };
  };
  return { text: "Archived.", undo };
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

/** Makes a change, and returns its concise answer, which has the version that it made. */
function change(name, args) {
  return callAbility(name, { ...args, detail: "concise" });
}
