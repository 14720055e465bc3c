// The page as one file: everything it needs is in the file.
import { start } from "./app.js";
import { embeddedSource } from "./source-embedded.js";

start(embeddedSource(JSON.parse(document.getElementById("data").textContent)));
