// A small virtual DOM: `h` describes the document, `render` updates it.
// It only makes elements, attributes and text nodes; nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const AS_PROPERTY = new Set(["value", "checked", "disabled", "open", "selected", "indeterminate"]);

/** `props.key` identifies a child among its siblings. Children may be `null`, `false` or nested lists. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: flat(children), node: null };
}

function flat(children, found = []) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true) continue;
    if (Array.isArray(child)) flat(child, found);
    else found.push(typeof child === "object" ? child : { tag: null, text: String(child), props: {}, children: [], node: null });
  }
  return found;
}

/** Make `vnodes` the content of `container`, with as few changes as possible. */
export function render(container, ...vnodes) {
  const wanted = flat(vnodes);
  reconcile(container, container.vnodes ?? [], wanted, container.namespaceURI === SVG);
  container.vnodes = wanted;
}

function reconcile(parent, before, after, isSvg) {
  const keyed = new Map();
  const others = [];
  for (const old of before) {
    if (old.props.key === undefined) others.push(old);
    else keyed.set(old.props.key, old);
  }
  let next = 0;
  after.forEach((vnode, index) => {
    const key = vnode.props.key;
    let old = key === undefined ? others[next] : keyed.get(key);
    if (key === undefined && old?.tag === vnode.tag) next += 1;
    if (old?.tag !== vnode.tag) old = undefined;
    else if (key !== undefined) keyed.delete(key);
    if (old) update(old, vnode, isSvg);
    else create(vnode, isSvg);
    place(parent, vnode.node, parent.childNodes[index] ?? null, !!old);
  });
  while (parent.childNodes.length > after.length) parent.lastChild.remove();
}

function place(parent, node, there, isMove) {
  if (node === there) return;
  if (isMove && parent.moveBefore) parent.moveBefore(node, there); // keeps focus and scrolling
  else parent.insertBefore(node, there);
}

function create(vnode, isSvg) {
  if (vnode.tag === null) {
    vnode.node = document.createTextNode(vnode.text);
    return;
  }
  const inSvg = isSvg || vnode.tag === "svg";
  vnode.node = inSvg ? document.createElementNS(SVG, vnode.tag) : document.createElement(vnode.tag);
  setProps(vnode.node, {}, vnode.props);
  reconcile(vnode.node, [], vnode.children, inSvg);
  vnode.props.ref?.(vnode.node);
}

function update(old, vnode, isSvg) {
  if (old === vnode) return; // reused from the last render
  const node = (vnode.node = old.node);
  if (vnode.tag === null) {
    if (old.text !== vnode.text) node.data = vnode.text;
    return;
  }
  setProps(node, old.props, vnode.props);
  reconcile(node, old.children, vnode.children, isSvg || vnode.tag === "svg");
}

function setProps(node, before, after) {
  for (const name in before) if (!(name in after)) setProp(node, name, before[name], null);
  for (const name in after) if (before[name] !== after[name] || AS_PROPERTY.has(name)) setProp(node, name, before[name], after[name]);
}

function setProp(node, name, before, value) {
  if (name === "key" || name === "ref") return;
  if (name.startsWith("on")) listen(node, name.slice(2), value);
  else if (name === "style") setStyle(node.style, before ?? {}, value ?? {});
  else if (AS_PROPERTY.has(name)) {
    if (name === "value" && node === document.activeElement) return; // the user is typing here
    if (node[name] !== (value ?? "")) node[name] = value ?? "";
  } else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

function setStyle(style, before, after) {
  for (const name in before) if (!(name in after)) style.removeProperty(name);
  for (const name in after) if (before[name] !== after[name]) style.setProperty(name, after[name]);
}

function listen(node, type, handler) {
  node.handlers ??= {};
  if (!(type in node.handlers)) node.addEventListener(type, (event) => node.handlers[type]?.(event));
  node.handlers[type] = handler;
}
