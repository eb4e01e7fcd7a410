// Keeps the progress of a run up to date; without this, the page has a link to look again.
(() => {
  const look = async () => {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.querySelector("#run");
    if (!now) return;
    if (now.hasAttribute("data-ended")) {
      location.reload();
      return;
    }
    document.querySelector("#run").replaceChildren(...now.childNodes);
    setTimeout(look, 700);
  };
  setTimeout(look, 700);
})();
