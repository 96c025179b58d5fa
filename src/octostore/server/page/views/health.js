import { h } from "../dom.js";
export const title = "Health";
export const load = async () => ({});
export const render = () => h("p", null, "");
