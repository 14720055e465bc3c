// Everything in its place.
if (DATA.tiny) document.body.classList.add("pixels");
header();
sizes();
kCurve();
map.start();
startQueue();
{
  const notes = [`Made by ltgcd ${META.version}. This file is complete in itself: it needs no network, and nothing leaves it.`];
  if (META.n > META.laid_out) notes.push(`The map: t-SNE laid out ${whole(META.laid_out)} items, everything rare among them; each other item stands beside the nearest of these.`);
  if (META.n > ITEMS.n) notes.push(`${whole(META.n - ITEMS.n)} items of the largest classes and categories are counted but not on the map.`);
  if (META.left_out) notes.push(`${plural(META.left_out, "item")} of the source got no assignment and ${META.left_out === 1 ? "is" : "are"} left out.`);
  if (DATA.pictures.length && CATS.some((cat) => cat.examples.centre.some((item) => !PICTURE.has(item)))) notes.push("Some examples have no picture, to keep the file small.");
  $("#notes").textContent = notes.join(" ");
}
$("#confidences").textContent = META.confidences;
document.documentElement.dataset.ready = "true";
