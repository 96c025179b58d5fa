// Tokens, for administrators.

import { path, send } from "../api.js";
import { h } from "../dom.js";
import { ms, now as storeNow, when } from "../clock.js";
import { empty, table, visible } from "../words.js";

export const title = "Tokens";
export const every = 30;

const SCOPES = [["read", "read: see everything"], ["read,claim", "read and claim: for workers"], ["read,claim,admin", "admin: everything, including tokens"]];
const DAY_SECONDS = 86_400;

let secret = null; // the new token; shown once, and stored nowhere

export async function load(ctx) {
  const { tokens } = await ctx.get("tokens");
  return { tokens };
}

export const leave = () => (secret = null);

export function render({ tokens }, ctx) {
  return [
    h("p", { class: "buttons" }, h("button", { class: "strong", onclick: () => ctx.act(creating()) }, "Create a token")),
    secret && h("div", { class: "notice", role: "status" }, h("p", null, `The token for ${visible(secret.name)}. Copy it now: it is not shown again.`), h("pre", { tabindex: 0 }, secret.token), h("button", { onclick: () => forget(ctx) }, "I have it")),
    tokens.length === 0 ? empty("All tokens are in the server's tokens file.", "octostore token create NAME --scope read") : tableOf(tokens, ctx),
  ];
}

function forget(ctx) {
  secret = null;
  ctx.redraw();
}

function tableOf(tokens, ctx) {
  return table(
    "Tokens",
    [
      ["For", (token) => visible(token.name)],
      ["May", (token) => token.scopes.join(", ")],
      ["Jobs", (token) => (token.prefix ? `only ${visible(token.prefix)}…` : "all")],
      ["Created", (token) => when(token.created_at)],
      ["Expires", (token) => when(token.expires_at, "never")],
      ["State", (token) => state(token)],
      ["Change", (token) => token.revoked_at === null && h("button", { class: "danger", onclick: () => ctx.act(revoking(token, token.name === ctx.me.name)) }, "Revoke")],
    ],
    tokens,
    (token) => token.token_id,
  );
}

function state(token) {
  if (token.revoked_at !== null) return ["revoked ", when(token.revoked_at)];
  return token.expires_at !== null && ms(token.expires_at) <= storeNow() ? "expired" : "valid";
}

function creating() {
  return {
    title: "Create a token",
    verb: "Create",
    says: "The log shows this name for everything done with the token.",
    reason: false,
    fields: [
      { name: "name", label: "Who will use it", kind: "text" },
      { name: "scopes", label: "What it may do", kind: "select", options: SCOPES, value: "read" },
      { name: "prefix", label: "Only jobs that begin with", kind: "text", optional: true },
      { name: "days", label: "Expires after (days)", kind: "number", min: 1, optional: true, hint: "Empty means never." },
    ],
    async run({ name, scopes, prefix, days }) {
      const body = { name, scopes: scopes.split(","), prefix };
      if (days !== "") body.expires_in_seconds = Number(days) * DAY_SECONDS;
      const made = await send("POST", "tokens", body);
      secret = { name, token: made.token };
      return `A token for ${visible(name)} was created.`;
    },
  };
}

function revoking(token, isOwn) {
  return {
    title: `Revoke the token of ${visible(token.name)}`,
    verb: "Revoke",
    isDanger: true,
    says: `${isOwn ? "You may be using this token yourself: if so, you are logged out at once. " : ""}The server refuses it from now on and closes its open streams and pages. Claims made with it last until they expire.`,
    reason: false,
    method: "DELETE",
    where: path("tokens", token.token_id),
    body: () => undefined,
    done: `The token of ${visible(token.name)} was revoked.`,
  };
}
