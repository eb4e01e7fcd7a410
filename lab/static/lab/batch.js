// Updates the progress of a batch, and reloads the page at its end.
(() => {
  const look = async () => {
    setTimeout(look, 1000); // even when this request fails
    const answer = await fetch(location.href);
    if (!answer.ok) return; // try again: the service is busy
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.querySelector("#batch");
    if (!now || now.hasAttribute("data-ended")) location.reload();
    else document.querySelector("#batch").replaceChildren(...now.childNodes);
  };
  setTimeout(look, 700);
})();
