// Shows the names of countries beside their codes: the browser knows them, the server does not.
"use strict";

const NAMES = new Intl.DisplayNames(["en"], { type: "region", fallback: "none" });

for (const country of document.querySelectorAll("[data-country]")) {
  const code = country.textContent;
  const name = /^[A-Z]{2}$/.test(code) && NAMES.of(code);
  if (name) country.textContent = `${code} ${name}`;
}
