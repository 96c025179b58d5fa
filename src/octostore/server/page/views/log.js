import { h } from "../dom.js";
export const title = "Log";
export const load = async () => ({});
export const render = () => h("p", null, "");
