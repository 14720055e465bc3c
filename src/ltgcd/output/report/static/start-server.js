// The page as 'ltgcd review' serves it.
import { start } from "./app.js";
import { httpSource } from "./source-http.js";

start(httpSource());
