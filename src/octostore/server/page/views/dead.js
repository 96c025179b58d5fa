import { h } from "../dom.js";
export const title = "Dead";
export const load = async () => ({});
export const render = () => h("p", null, "");
