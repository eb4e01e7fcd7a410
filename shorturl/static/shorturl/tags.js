// Suggests one's own tags also behind the first one: a browser compares with the whole field.
"use strict";

const list = document.getElementById("used-tags");
const tags = Array.from(list?.options ?? [], (option) => option.value);

for (const field of document.querySelectorAll("[list=used-tags]")) {
  const suggest = () => {
    const [typed] = field.value.match(/^.*[,;|]\s*|^/s);
    const chosen = typed.split(/[,;|]/).map((tag) => tag.trim().toLowerCase());
    const free = tags.filter((tag) => !chosen.includes(tag));
    list.replaceChildren(...free.map((tag) => new Option("", typed + tag)));
  };
  field.addEventListener("focus", suggest);
  field.addEventListener("input", suggest);
}
