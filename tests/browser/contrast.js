// Contrast of every text in sight to what lies behind it, as WCAG computes it; what can't be used now is exempt.
() => {
  const numbers = (text) => text.match(/[\d.]+/g).map(Number);
  const parsed = (text) => {
    const [r, g, b, a = 1] = text.startsWith("color(") ? numbers(text.slice(11)).map((v, i) => i < 3 ? 255 * v : v) : numbers(text);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
  const linear = (v) => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const upwards = (node) => { const all = []; for (let at = node; at; at = at.parentElement) all.push(at); return all; };
  const exempt = "script, style, noscript, option, .hidden, :disabled, .off, .undone, svg";
  const found = new Set(), root = document.querySelector("dialog") ?? document.body;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const one = node.parentElement;
    if (!node.textContent.trim() || one.closest(exempt) || !one.checkVisibility() || !one.getClientRects().length) continue;
    if (getComputedStyle(one).fontSize === "0px") continue;
    const layers = []; // what is painted behind the text, from the text down to the first that covers all
    for (const at of upwards(one)) {
      layers.push(parsed(getComputedStyle(at).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    let back = [255, 255, 255];
    for (const layer of layers.reverse()) back = over(layer, back);
    const opacity = upwards(one).reduce((product, at) => product * Number(getComputedStyle(at).opacity), 1);
    const [r, g, b, a] = parsed(getComputedStyle(one).color), front = over([r, g, b, a * opacity], back);
    const [high, low] = [light(front), light(back)].sort((x, y) => y - x), ratio = (high + .05) / (low + .05);
    if (ratio < 4.5) found.add(`${ratio.toFixed(2)} ${one.tagName.toLowerCase()}.${one.className} “${node.textContent.trim().slice(0, 30)}”`);
  }
  return [...found];
}
