import { h } from "../dom.js";
export const title = "Workers";
export const load = async () => ({});
export const render = () => h("p", null, "");
