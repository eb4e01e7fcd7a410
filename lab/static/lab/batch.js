// Keeps the progress of a batch up to date; without this, the page has a link to look again.
(() => {
  const look = async () => {
    setTimeout(look, 1000); // even when this request fails
    const answer = await fetch(location.href);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.querySelector("#batch");
    if (now?.hasAttribute("data-ended")) location.reload();
    else if (now) document.querySelector("#batch").replaceChildren(...now.childNodes);
  };
  setTimeout(look, 700);
})();
