// Files that are dropped anywhere on a page; elsewhere the browser would leave the page for them.

const files = (e) => e.dataTransfer?.types.includes("Files");

/** Calls `take(list)` with the dropped files, and marks `place` while some are held above the page. */
export function takeDrops(place, take) {
  const mark = (over) => place.classList.toggle("over", over);
  addEventListener("dragover", (e) => {
    if (!files(e)) return; // a piece of text is dropped where the reader points
    e.preventDefault();
    mark(true);
  });
  addEventListener("dragleave", (e) => e.relatedTarget || mark(false));
  addEventListener(
    "drop",
    (e) => {
      if (!files(e)) return;
      e.preventDefault();
      e.stopPropagation(); // an editor would insert the file where it is dropped
      mark(false);
      take([...e.dataTransfer.files]);
    },
    true,
  );
}
