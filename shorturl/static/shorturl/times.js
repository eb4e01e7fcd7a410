// Shows times in the reader's time zone, and lets an expiry be typed in it. The server has only UTC.
"use strict";

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const ZONE_NAME = ZONE.replaceAll("_", " ");
const DAY = { day: "numeric", month: "short", year: "numeric" };
const MINUTE = { ...DAY, hour: "2-digit", minute: "2-digit" };
const asField = (time) => time.toISOString().slice(0, 16);

for (const time of document.querySelectorAll("time")) {
  const hasClock = time.textContent.endsWith("UTC");
  const format = new Intl.DateTimeFormat("en-GB", hasClock ? MINUTE : DAY);
  time.textContent = format.format(new Date(time.dateTime)) + (hasClock ? ` ${ZONE_NAME}` : "");
}

// Without this event the field stays in UTC.
if ("FormDataEvent" in window) {
  for (const field of document.querySelectorAll("input[type=datetime-local]")) {
    const help = document.getElementById(`${field.id}_helptext`);
    help.textContent = help.textContent.replace("UTC", ZONE_NAME);
    const utc = field.value;
    if (utc) {
      const time = new Date(`${utc}Z`);
      field.value = asField(new Date(time - time.getTimezoneOffset() * 60_000));
    }
    // A local time can be two times in UTC, so a time that nobody has changed is sent as it came.
    const shown = field.value;
    field.form.addEventListener("formdata", ({ formData }) => {
      if (field.value === shown) formData.set(field.name, utc);
      else if (field.value) formData.set(field.name, asField(new Date(field.value)));
    });
  }
}

// Whoever enters a time of expiry chooses it.
for (const field of document.querySelectorAll("[name=expires_at]")) {
  const choice = field.form.querySelector("[name=expires][value=at]");
  if (choice) field.addEventListener("input", () => (choice.checked = true));
}
