import { h } from "../dom.js";
export const title = "Job";
export const load = async () => ({});
export const render = () => h("p", null, "");
