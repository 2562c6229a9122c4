// Entry of the page.
import { render } from "preact";
import { App } from "./app";
import { startRouter } from "./lib/router";
import { startTheme } from "./lib/theme";
import { viewAt } from "./views";
import "./styles/page.css";

startTheme();
startRouter((path) => viewAt(path) !== null);
const root = document.getElementById("app");
if (root === null) throw new Error("index.html has no #app");
render(<App />, root);
