// What a person reviewed and left as it is. The tab remembers it until the memory changes.

const STORAGE_KEY = "abilities-kept";

const names = new Set(JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "[]"));

export const kept = {
  has: (item) => names.has(nameItem(item)),
  add: (item) => {
    names.add(nameItem(item));
    save();
  },
  drop: (item) => {
    names.delete(nameItem(item));
    save();
  },
};

function nameItem({ kind, id, version, other }) {
  return JSON.stringify([kind, id, version, other]);
}

function save() {
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify([...names]));
}
