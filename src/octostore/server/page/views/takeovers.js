import { h } from "../dom.js";
export const title = "Takeovers";
export const load = async () => ({});
export const render = () => h("p", null, "");
