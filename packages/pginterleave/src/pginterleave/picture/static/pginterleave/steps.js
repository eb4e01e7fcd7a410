// Shows each schedule of a page step by step; without this script, all steps are shown.
(() => {
  const moves = {
    first: () => 1,
    back: (at, steps) => (at === 0 ? steps - 1 : Math.max(1, at - 1)),
    forward: (at) => (at === 0 ? 1 : at + 1),
    last: (at, steps) => steps,
    all: () => 0,
  };
  const keys = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", Escape: "all" };

  // Returns the function that makes a move in this schedule.
  const makeStepper = (schedule) => {
    const pictures = [...schedule.querySelectorAll(".picture")];
    const rows = [...schedule.querySelectorAll(".lanes tbody tr")];
    const controls = schedule.querySelector(".stepping");
    const verdict = schedule.querySelector(".verdict-box");
    const sent = schedule.querySelector(".sent-now");
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
      schedule.classList.toggle("on-the-way", onTheWay);
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
      history.replaceState(null, "", row ? `#${row.id}` : location.pathname + location.search);
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
    controls.hidden = false;
    const named = rows.findIndex((row) => `#${row.id}` === location.hash);
    if (named >= 0) show(named + 1);
    return move;
  };

  const steppers = new Map();
  for (const schedule of document.querySelectorAll("[data-schedule]")) {
    if (schedule.querySelector(".lanes") && !schedule.querySelector(".hidden-step"))
      steppers.set(schedule, makeStepper(schedule));
  }

  // The keys step through the schedule that has the focus, else the one in the middle of the window.
  const findSchedule = (element) => {
    const middle = window.innerHeight / 2;
    const inTheMiddle = [...steppers.keys()].find((schedule) => {
      const { top, bottom } = schedule.getBoundingClientRect();
      return top <= middle && middle <= bottom;
    });
    return steppers.has(element) ? element : inTheMiddle;
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (typing || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    const schedule = findSchedule(event.target.closest("[data-schedule]"));
    if (!keys[event.key] || !schedule) return;
    // In a frame with wider content, the arrow keys scroll.
    const frame = event.target.closest(".scroll");
    if (frame && frame.scrollWidth > frame.clientWidth) return;
    event.preventDefault();
    steppers.get(schedule)(keys[event.key]);
  });
})();
