// The form that opens a room, and goes on to its wall.
import { $, answer, arrived, boot, h, request, Told } from "../page.js";
import { takeDrops } from "../drop.js";
import { tr } from "../texts.js";
import { inLanguage, reasonOf } from "./texts.js";

const texts = []; // own lessons: {name, text}

$("lonely").hidden = !boot.lonely;
$("seats").value = boot.seats;
$("seats").max = boot.most_seats;
$("trials").value = boot.trials;
$("lessons").replaceChildren(
  ...boot.lessons.map((lesson, place) =>
    h("label", { class: "check" },
      h("input", { type: "checkbox", name: "lesson", value: lesson.slug, checked: place === 0 }),
      h("span", {}, h("strong", {}, lesson.title), ` ${lesson.minutes} ${tr("min")}`,
        h("small", { class: "faint" }, lesson.summary)))),
);

async function add(files) {
  for (const file of files) texts.push({ name: file.name, text: await file.text() });
  drawOwn();
}

$("own").addEventListener("change", async () => {
  await add($("own").files);
  $("own").value = "";
});
takeDrops($("own"), add);

function drawOwn() {
  const remove = (one) => () => {
    texts.splice(texts.indexOf(one), 1);
    drawOwn();
  };
  $("own-list").replaceChildren(
    ...texts.map((one) =>
      h("li", {}, `${one.name} `,
        h("button", { type: "button", class: "button small", onclick: remove(one) }, tr("Remove")))),
  );
}

async function open() {
  if (!texts.length && !document.querySelector("[name=lesson]:checked"))
    throw new Told(tr("No lesson is chosen."), tr("Tick at least one, or choose a file of your own."));
  const deadline = $("deadline").value;
  const room = await request("/api/rooms", {
    body: {
      title: $("title").value,
      lessons: [...document.querySelectorAll("[name=lesson]:checked")].map((box) => box.value),
      own: texts.map((one) => one.text),
      paced: document.querySelector("[name=pace]:checked").value === "paced",
      test: $("test").checked,
      seats: Number($("seats").value),
      trials: Number($("trials").value),
      deadline: deadline ? new Date(deadline).getTime() / 1000 : null,
    },
  });
  location.assign(inLanguage(new URL(room.teacher_url, location.href).pathname));
}

answer($("new-room"), async () => {
  $("error").hidden = true;
  try {
    await open();
  } catch (problem) {
    // The server numbers the own lessons; the teacher knows the files.
    $("error").textContent = reasonOf(problem).replace(/\bown-(\d+)\b/, (name, n) => texts[n - 1]?.name ?? name);
    $("error").hidden = false;
  }
});
arrived();
