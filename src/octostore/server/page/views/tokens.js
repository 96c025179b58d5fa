import { h } from "../dom.js";
export const title = "Tokens";
export const load = async () => ({});
export const render = () => h("p", null, "");
