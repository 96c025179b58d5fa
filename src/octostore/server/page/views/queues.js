import { h } from "../dom.js";
export const title = "Queues";
export const load = async () => ({});
export const render = () => h("p", null, "");
