// Keeps the progress of a batch up to date, and loads the page again when it is done.
(() => {
  const look = async () => {
    setTimeout(look, 1000); // even when this request fails
    const answer = await fetch(location.href);
    if (!answer.ok) return; // a service that is busy is asked again
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.querySelector("#batch");
    if (!now || now.hasAttribute("data-ended")) location.reload();
    else document.querySelector("#batch").replaceChildren(...now.childNodes);
  };
  setTimeout(look, 700);
})();
