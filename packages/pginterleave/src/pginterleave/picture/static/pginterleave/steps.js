// Shows the schedule of a page step by step; without this script, all steps are shown.
(() => {
  const moves = {
    first: () => 1,
    back: (at, steps) => (at === 0 ? steps - 1 : Math.max(1, at - 1)),
    forward: (at) => (at === 0 ? 1 : at + 1),
    last: (at, steps) => steps,
    all: () => 0,
  };
  const keys = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", Escape: "all" };
  const pictures = [...document.querySelectorAll(".picture")];
  const rows = [...document.querySelectorAll(".lanes tbody tr")];
  const controls = document.querySelector(".stepping");
  const verdict = document.querySelector(".verdict-box");
  const sent = document.querySelector(".sent-now");
  if (!controls || !rows.length || document.querySelector(".hidden-step")) return;
  const status = controls.querySelector("[role=status]");
  let at = 0; // the step that is shown last; 0 shows all of them

  const draw = (picture) => {
    const ends = picture.dataset.ends.trim().split(/\s+/);
    const onTheWay = at > 0 && at < rows.length;
    picture.querySelector("clipPath rect").setAttribute("height", ends[onTheWay ? at : ends.length - 1]);
    for (const shape of picture.querySelectorAll("[data-step]")) {
      const step = Number(shape.dataset.step);
      shape.classList.toggle("now", step === at);
      shape.classList.toggle("later", at > 0 && step > at);
    }
  };

  const show = (step) => {
    at = Math.max(0, Math.min(step, rows.length));
    pictures.forEach(draw);
    rows.forEach((row, index) => {
      row.hidden = at > 0 && index >= at;
      row.classList.toggle("now", index === at - 1);
      if (index === at - 1) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
    const onTheWay = at > 0 && at < rows.length;
    verdict.classList.toggle("not-yet", onTheWay);
    document.body.classList.toggle("on-the-way", onTheWay);
    document.querySelectorAll(".line.now").forEach((line) => line.classList.remove("now"));
    const row = rows[at - 1];
    const line = row && document.getElementById(`L${row.dataset.line}`);
    if (line) {
      line.classList.add("now");
      line.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    sent.hidden = !row;
    if (row) {
      sent.querySelector(".told").textContent = row.querySelector(".told").textContent;
      sent.querySelector("code").textContent = row.querySelector("code").textContent;
      sent.lastElementChild.textContent = row.querySelector(".returned")?.textContent ?? "";
    }
    const texts = [...sent.children].map((child) => child.textContent);
    status.textContent = row ? `Step ${at} of ${rows.length}: ${texts.join(" ")}` : "All steps";
    history.replaceState(null, "", row ? `#step-${at}` : location.pathname + location.search);
  };

  const move = (name) => show(moves[name](at, rows.length));
  controls.addEventListener("click", (event) => {
    if (event.target.dataset.go) move(event.target.dataset.go);
  });
  for (const picture of pictures) {
    picture.addEventListener("click", (event) => {
      const step = Number(event.target.closest("[data-step]")?.dataset.step);
      if (step) show(step);
    });
  }
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (typing || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (!keys[event.key]) return;
    // In a frame with wider content, the arrow keys scroll.
    const frame = event.target.closest(".scroll");
    if (frame && frame.scrollWidth > frame.clientWidth) return;
    event.preventDefault();
    move(keys[event.key]);
  });
  controls.hidden = false;
  const step = /^#step-(\d+)$/.exec(location.hash);
  if (step) show(Number(step[1]));
})();
