"use strict";
const page = JSON.parse(document.getElementById("page-data").textContent);

/* Plots: dragging looks closer, a double click looks at all again. */
for (const [name, figure] of Object.entries(page.charts)) {
  Plotly.newPlot("chart-" + name, figure.data, figure.layout, {responsive: true, displayModeBar: false});
}

/* Tables: a click on a heading sorts, a second one the other way round; a search leaves the rows that have the words. */
for (const table of document.querySelectorAll("table.sorts")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const numeric = heading.classList.contains("number");
      const was = heading.getAttribute("aria-sort");
      const rising = was ? was === "descending" : !numeric;
      headings.forEach(other => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = numeric
        ? (a, b) => (a === "" ? -Infinity : Number(a)) - (b === "" ? -Infinity : Number(b))
        : (a, b) => a.localeCompare(b, undefined, {numeric: true});
      const rows = [...body.rows].map(row => [value(row), row]);
      rows.sort((a, b) => rising ? compare(a[0], b[0]) : compare(b[0], a[0]));
      body.append(...rows.map(([, row]) => row));
    });
  });
  const search = document.getElementById("search-" + table.id);
  if (search) search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  });
}

/* The sequence chart: time goes down, a frame is an arrow from one end to the other. */
const SVG = "http://www.w3.org/2000/svg";
const STEP = 27, LEFT = 150, RIGHT = 150, ARROW = 8;
const choice = document.getElementById("conversation");
const wanted = document.getElementById("frame-search");
const drawing = document.getElementById("sequence");
const detail = document.getElementById("detail");

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function shortened(text, room) {
  const fits = Math.max(8, Math.floor(room / 7.6));
  return text.length > fits ? text.slice(0, fits - 1) + "\u2026" : text;
}

function drawFrame(frame, y, width) {
  const [time, packet, fromClient, channel, name, label, error, text] = frame;
  const colour = page.colours[name] || page.colours[""];
  const group = element("g", {class: error ? "frame bad" : "frame", tabindex: 0, role: "button"});
  const start = fromClient ? LEFT : width - RIGHT, end = fromClient ? width - RIGHT : LEFT;
  const tip = fromClient ? end - ARROW : end + ARROW;
  const title = (error ? "\u2715 " : "") + name + (label ? "  " + label : "");
  group.append(
    element("rect", {class: "band", x: 0, y: y - STEP / 2 - 3, width, height: STEP}),
    element("text", {class: "time", x: LEFT - 14, y: y + 4, "text-anchor": "end"}, time),
    element("text", {class: "channel", x: width - RIGHT + 14, y: y + 4}, channel === null ? "" : "channel " + channel),
    element("line", {x1: start, x2: tip, y1: y + 4, y2: y + 4, stroke: colour}),
    element("path", {d: `M${end},${y + 4}L${tip},${y}L${tip},${y + 8}Z`, fill: colour}),
    element("text", {class: "label", x: width / 2, y: y - 2, "text-anchor": "middle", fill: "#1b1f24"},
      shortened(title, width - LEFT - RIGHT - 30)),
    element("title", {}, error ? title + "\n" + error : title));
  const show = () => {
    for (const other of drawing.querySelectorAll(".chosen")) other.classList.remove("chosen");
    group.classList.add("chosen");
    detail.textContent = `${name}   ${time}${packet === null ? "" : "   packet " + packet}\n`
      + (error ? error + "\n" : "") + text;
  };
  group.addEventListener("click", show);
  group.addEventListener("keydown", event => { if (event.key === "Enter") show(); });
  return group;
}

function drawConversation() {
  const conversation = page.conversations[Number(choice.value)];
  drawing.replaceChildren();
  detail.textContent = "Choose a frame to see its fields.";
  if (!conversation) return;
  document.getElementById("client").textContent = conversation.client;
  document.getElementById("server").textContent = conversation.server;
  const words = wanted.value.toLowerCase().split(/\s+/).filter(Boolean);
  const frames = conversation.frames.filter(frame => frame.length === 1
    ? !words.length
    : words.every(word => (frame[4] + " " + frame[5] + " " + (frame[6] || "") + " " + frame[7]).toLowerCase().includes(word)));
  const width = Math.max(640, document.getElementById("sequence-scroll").clientWidth - 2);
  const height = 24 + STEP * frames.length;
  const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": "Frames between " + conversation.client + " and " + conversation.server});
  for (const x of [LEFT, width - RIGHT]) svg.append(element("line", {class: "life", x1: x, x2: x, y1: 0, y2: height}));
  frames.forEach((frame, index) => {
    const y = 24 + STEP * index;
    svg.append(frame.length === 1
      ? element("text", {class: "note", x: width / 2, y: y + 4, "text-anchor": "middle"}, "\u22ee  " + frame[0])
      : drawFrame(frame, y, width));
  });
  drawing.append(svg);
}

if (choice) {
  choice.addEventListener("change", drawConversation);
  wanted.addEventListener("input", drawConversation);
  window.addEventListener("resize", drawConversation);
  drawConversation();
}
for (const link of document.querySelectorAll("a[data-conversation]")) {
  link.addEventListener("click", () => { choice.value = link.dataset.conversation; wanted.value = ""; drawConversation(); });
}
document.documentElement.dataset.ready = "yes";
