import { render } from "preact";
import "@xterm/xterm/css/xterm.css";
import "./view/base.css";
import "./view/app.css";
import { App } from "./view/app";
import { start } from "./state/app";

const root = document.getElementById("app");
if (root) render(<App />, root);
void start();
