{
  // The language of queries, and what a certificate answers.

  const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
  const BLANK = new RegExp(`^[${SPACE}]*$`, "u");
  const GAP = new RegExp(`[${SPACE}]*`, "uy");
  const GAPS = new RegExp(`[${SPACE}]+`, "u");
  const LETTER = `[^${SPACE}&|^~()"'-]`;
  const WORD = new RegExp(`${LETTER}+`, "uy");
  const ENDS_IN_A_WORD = new RegExp(`${LETTER}$`, "u");
  const QUOTED = /(["'])([^\n]*?)\1/uy;
  const SIGNS = "&|-^~()";
  const LOOSEST_FIRST = ["|", "^", "&", "-"];
  const JOIN = {
    "|": (a, b) => new Set([...a, ...b]),
    "^": (a, b) => new Set([...[...a].filter((t) => !b.has(t)), ...[...b].filter((t) => !a.has(t))]),
    "&": (a, b) => new Set([...a].filter((t) => b.has(t))),
    "-": (a, b) => new Set([...a].filter((t) => !b.has(t))),
  };

  class InputError extends Error {}

  const few = (names, most = 5) =>
    names.slice(0, most).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "");

  // As Python prints a string.
  const printed = (text) => {
    const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
    const named = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", [mark]: `\\${mark}` };
    const letter = (c) => {
      if (c in named) return named[c];
      if (c === " " || !/[\p{C}\p{Z}]/u.test(c)) return c;
      const hex = c.codePointAt(0).toString(16);
      return hex.length <= 2 ? `\\x${hex.padStart(2, "0")}` : hex.length <= 4 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
    };
    return mark + Array.from(text, letter).join("") + mark;
  };

  const place = (text, at) => Array.from(text.slice(0, at)).length + 1;

  const misread = (text, at, what) =>
    new InputError(
      `A query must join names by & | - ^ ~ and parentheses. Got ${printed(text)}, with ${what} at character ${place(text, at)}.`,
    );

  const match = (pattern, text, at) => {
    pattern.lastIndex = at;
    return pattern.exec(text);
  };

  // The first place from here on that is no space.
  const past = (text, at) => at + match(GAP, text, at)[0].length;

  // Whether a name stands at a place and does not end within a word.
  const stands = (name, text, at) =>
    text.startsWith(name, at) && !(ENDS_IN_A_WORD.test(name) && match(WORD, text, at + name.length));

  // What a place in a text may hold, the longest first: what is in quotes, or else a name, a sign or a word.
  const tokensAt = (text, at, S) => {
    const token = (words, length, isName) => ({ words, at, next: past(text, at + length), isName });
    const quoted = match(QUOTED, text, at);
    if (quoted) return [token(quoted[2], quoted[0].length, true)];
    const found = S.odd.filter((name) => stands(name, text, at)).map((name) => token(name, name.length, true));
    const word = match(WORD, text, at);
    if (SIGNS.includes(text[at])) found.push(token(text[at], 1, false));
    else if (word) found.push(token(word[0], word[0].length, true));
    return found;
  };

  // A text of no reading, token by token with the longest names, so that what is wrong can be told.
  const tokens = (text, S) => {
    const found = [];
    let at = past(text, 0);
    while (at < text.length) {
      const [first] = tokensAt(text, at, S);
      if (!first) throw misread(text, at, "a quote that is not closed");
      found.push(first);
      at = first.next;
    }
    return found;
  };

  // Whether a name is wanted and how many parentheses are open behind a token; null where it cannot stand.
  const stateAfter = ({ words, isName }, { wanted, opened }, S) => {
    if (isName) return wanted && (S.observations.has(words) || S.latents.has(words)) ? { wanted: false, opened } : null;
    if (words === "~" || words === "(") return wanted ? { wanted, opened: opened + (words === "(") } : null;
    if (words === ")") return opened && !wanted ? { wanted, opened: opened - 1 } : null;
    return wanted ? null : { wanted: true, opened };
  };

  const unrolled = (way) => {
    const found = [];
    for (let last = way; last; last = last.earlier) found.push(last.token);
    return found.reverse();
  };

  // Up to two ways to read all of a text as names that signs join. Ways are kept by where they have come and the state
  // there, up to two of each: they all end alike, so that very many readings are seen to be two as fast as any.
  const readings = (text, S) => {
    const ways = Array.from({ length: text.length + 1 }, () => new Map());
    const reach = (at, { wanted, opened }, more) => {
      const key = `${wanted} ${opened}`;
      const known = ways[at].get(key)?.known ?? [];
      ways[at].set(key, { wanted, opened, known: [...known, ...more].slice(0, 2) });
    };
    reach(past(text, 0), { wanted: true, opened: 0 }, [null]);
    for (let at = 0; at < text.length; at += 1) {
      for (const state of ways[at].values()) {
        for (const token of tokensAt(text, at, S)) {
          const after = stateAfter(token, state, S);
          if (after) reach(token.next, after, state.known.map((earlier) => ({ token, earlier })));
        }
      }
    }
    return (ways[text.length].get("false 0")?.known ?? []).map(unrolled);
  };

  // Where two readings part, and what each has there.
  const ambiguous = (text, one, other) => {
    const k = one.findIndex((token, n) => token.words !== other[n].words || token.isName !== other[n].isName);
    const parting = [one[k].words, other[k].words].sort((a, b) => b.length - a.length);
    return new InputError(
      `A query must have one meaning; write its names in quotes. Got ${printed(text)}, where ` +
        `${parting.map(printed).join(" or ")} can be meant at character ${place(text, one[k].at)}.`,
    );
  };

  const parse = (text, S) => {
    const read = readings(text, S);
    if (read.length > 1) throw ambiguous(text, ...read);
    const all = read.length ? read[0] : tokens(text, S);
    const deep = all.filter((token) => !token.isName && "(~".includes(token.words)).length;
    if (deep > S.deepest) {
      throw new InputError(`A query must have at most ${S.deepest} parentheses and complements. Got ${deep}.`);
    }
    let k = 0;
    const next = (sign) => k < all.length && !all[k].isName && all[k].words === sign;
    const latents = (token) => {
      if (S.observations.has(token.words)) return new Set(S.support[S.observations.get(token.words)]);
      if (S.latents.has(token.words)) return new Set([S.latents.get(token.words)]);
      const where = `${printed(token.words)} at character ${place(text, token.at)} of ${printed(text)}`;
      const there = `${few(S.observed)} and ${few(S.latent)}`.split(GAPS).filter((part) => part).join(" ");
      throw new InputError(
        `A query's names must be observations or latents of the structure. Got ${where}, where there are ${there}.`,
      );
    };
    const factor = () => {
      if (k === all.length) throw misread(text, text.length, "the end where a name was expected");
      const first = all[k];
      k += 1;
      if (first.isName) return latents(first);
      if (first.words === "~") return JOIN["-"](S.latent.keys(), factor());
      if (first.words !== "(") throw misread(text, first.at, `${printed(first.words)} where a name was expected`);
      const inside = expression(0);
      if (!next(")")) {
        const [where, what] = k < all.length ? [all[k].at, printed(all[k].words)] : [text.length, "the end"];
        throw misread(text, where, `${what} where ')' was expected`);
      }
      k += 1;
      return inside;
    };
    const expression = (level) => {
      if (level === LOOSEST_FIRST.length) return factor();
      const sign = LOOSEST_FIRST[level];
      let left = expression(level + 1);
      while (next(sign)) {
        k += 1;
        left = JOIN[sign](left, expression(level + 1));
      }
      return left;
    };
    const found = expression(0);
    if (k < all.length) {
      throw misread(text, all[k].at, `${printed(all[k].words)} where an operator or the end was expected`);
    }
    return found;
  };

  const ordered = (set) => [...set].sort((a, b) => a - b);
  const names = (set, S) => ordered(set).map((t) => S.latent[t]).join(", ");

  const reading = (latents, closed, S) => {
    if (!latents.size) return "Zheng et al. 2026 say nothing about no latents.";
    const extra = JOIN["-"](closed, latents);
    if (!extra.size) return "By Zheng et al. 2026: block-identified; under their Assumption 1 this follows.";
    return (
      "By Zheng et al. 2026: block-identified as a set of observations' latents; even under their Assumption 1 that " +
      `does not follow, ${names(extra, S)} may be mixed in.`
    );
  };

  const judged = (latents, S) => {
    const none = new Set();
    if (!latents.size) return { answer: "empty", entangled: none, reason: "no latent is asked for" };
    const unproved = ordered(latents).filter((t) => S.block[t].some((r) => !latents.has(r)));
    if (!unproved.length && S.proved) {
      const reason = "no equivalent model with no more dependencies mixes anything else into them";
      return { answer: "block-identified", entangled: none, reason };
    }
    const carried = unproved.flatMap((t) => S.carried[t]).filter(([r]) => !latents.has(r));
    if (!carried.length) return { answer: "open", entangled: none, reason: S.why_open };
    const entangled = new Set(carried.map(([r]) => r));
    const several = entangled.size > 1;
    const [who, first] = several ? ["competitors mix in", "; the first:"] : ["a competitor mixes in", ","];
    const reason = `${who} ${names(entangled, S)}${first} ${S.sentences[carried[0][1]]}`;
    return { answer: "not identified", entangled, reason };
  };

  const answer = (latents, S) => {
    const closed = new Set(ordered(latents).flatMap((t) => S.closure(t)));
    return { latents, ...judged(latents, S), closed, paper: reading(latents, closed, S) };
  };

  const structure = (facts) => {
    const places = (all) => new Map(all.map((name, k) => [name, k]));
    const columns = facts.latent.map(() => new Set());
    facts.support.forEach((row, i) => row.forEach((t) => columns[t].add(i)));
    const block = [];
    for (const members of facts.blocks) for (const t of members) block[t] = members;
    const odd = [...new Set([...facts.observed, ...facts.latent])].filter(
      (name) => !BLANK.test(name) && !SIGNS.includes(name) && match(WORD, name, 0)?.[0] !== name,
    );
    const within = (t, r) => [...columns[t]].every((i) => columns[r].has(i));
    return {
      ...facts,
      block,
      columns,
      odd: odd.sort((a, b) => b.length - a.length),
      observations: places(facts.observed),
      latents: places(facts.latent),
      closure: (t) => [...facts.latent.keys()].filter((r) => within(t, r)),
    };
  };

  // What is shown.

  const MOST_LISTED = 500;
  const MOST_NAMED = 200;
  const SIGN = {
    identified: ["✓", "good"],
    "block-identified": ["✓", "good"],
    "not identified": ["✕", "bad"],
    open: ["?", "open"],
    empty: ["∅", "quiet"],
  };

  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  const mark = (words) => {
    const [sign, tone] = SIGN[words];
    const shown = element("span", { className: `mark ${tone}` }, element("span", { ariaHidden: "true" }, sign), " ");
    shown.append(element("span", { className: "kind" }, words));
    return shown;
  };

  const named = (all) => {
    const shown = all.slice(0, MOST_NAMED).map((name) => element("span", { className: "name" }, name));
    if (all.length > MOST_NAMED) shown.push(`and ${all.length - MOST_NAMED} more`);
    return shown.length ? shown : ["none"];
  };

  const lines = (rows) =>
    element(
      "dl",
      {},
      ...rows.flatMap(([key, label, parts]) => [
        element("dt", {}, label),
        element("dd", { className: key }, ...(Array.isArray(parts) ? parts : [parts])),
      ]),
    );

  const told = {
    latent: (t, S) => {
      const [verdict, reason, upTo] = S.verdicts[t];
      const others = S.closure(t).map((r) => S.latent[r]);
      return lines([
        ["subject", "Latent", named([S.latent[t]])],
        ["ruling", "Guarantee", [mark(verdict), " ", element("span", { className: "why" }, `${reason}.`)]],
        ["ambiguity", "Known up to", upTo],
        ["observations", "Observations", named(ordered(S.columns[t]).map((i) => S.observed[i]))],
        ["closure", "Closure", named(others)],
        ["entangled", "Entangled with", named(ordered(judged(new Set([t]), S).entangled).map((r) => S.latent[r]))],
      ]);
    },
    observation: (i, S) =>
      lines([
        ["subject", "Observation", named([S.observed[i]])],
        ["latents", "Latents", named(S.support[i].map((t) => S.latent[t]))],
      ]),
  };

  const answered = (found, S) =>
    lines([
      ["latents", "Latents", named(ordered(found.latents).map((t) => S.latent[t]))],
      ["ruling", "Answer", mark(found.answer)],
      ["entangled", "Entangled with", named(ordered(found.entangled).map((t) => S.latent[t]))],
      ["why", "Why", `${found.reason}.`],
      ["paper", "The reading of Zheng et al. 2026", found.paper],
    ]);

  class Explorer {
    constructor(root) {
      this.root = root;
      this.S = structure(JSON.parse(root.querySelector("script").textContent));
      this.panel = root.querySelector(".told");
      this.output = root.querySelector(".answer");
      this.input = root.querySelector("input");
      this.pinned = null;
      this.options = {
        latent: this.list("latent", this.S.latent),
        observation: this.list("observation", this.S.observed),
      };
      this.listen();
      for (const part of root.querySelectorAll("[data-script]")) part.hidden = false;
      this.show(null);
    }

    list(kind, all) {
      const box = this.root.querySelector(`.list.${kind}`);
      const made = all.slice(0, MOST_LISTED).map((name, k) => this.option(kind, name, k));
      box.append(...made);
      made[0].tabIndex = 0;
      const left = all.length - made.length;
      if (left) box.after(element("p", { className: "note" }, `${left} more are not listed; the box knows them all.`));
      return made;
    }

    option(kind, name, k) {
      const made = element("span", { className: "option", tabIndex: -1, role: "option", ariaSelected: "false" });
      if (kind === "latent") {
        const verdict = this.S.verdicts[k][0];
        const [sign, tone] = SIGN[verdict];
        made.classList.add(tone);
        made.append(element("span", { className: "sign", ariaHidden: "true" }, sign));
        made.ariaLabel = `${name}, ${verdict}`;
      }
      made.append(element("span", { className: "words" }, name));
      const item = { kind, k };
      made.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && this.show(item));
      made.addEventListener("pointerleave", () => this.show(this.pinned));
      made.addEventListener("focus", () => this.pin(item));
      made.addEventListener("click", () => {
        made.focus();
        this.pin(item);
      });
      made.addEventListener("keydown", (event) => this.key(event, item));
      return made;
    }

    key(event, { kind, k }) {
      const all = this.options[kind];
      const to = {
        ArrowRight: k + 1,
        ArrowDown: k + 1,
        ArrowLeft: k - 1,
        ArrowUp: k - 1,
        Home: 0,
        End: all.length - 1,
      }[event.key];
      if (event.key === "Escape") this.pin(null);
      else if (event.key === "Enter" || event.key === " ") this.pin({ kind, k });
      else if (to !== undefined) all[to]?.focus();
      else return;
      event.preventDefault();
    }

    pin(item) {
      this.pinned = item;
      if (item) for (const [k, option] of this.options[item.kind].entries()) option.tabIndex = k === item.k ? 0 : -1;
      this.show(item);
    }

    show(item) {
      const { S } = this;
      const near = { latent: new Set(), observation: new Set() };
      if (item?.kind === "latent") near.observation = S.columns[item.k];
      if (item?.kind === "observation") near.latent = new Set(S.support[item.k]);
      const rivals = item?.kind === "latent" ? judged(new Set([item.k]), S).entangled : new Set();
      for (const [kind, all] of Object.entries(this.options)) {
        for (const [k, option] of all.entries()) {
          const chosen = item?.kind === kind && item.k === k;
          option.ariaSelected = String(chosen);
          option.classList.toggle("near", near[kind].has(k));
          option.classList.toggle("rival", kind === "latent" && rivals.has(k));
        }
      }
      this.root.classList.toggle("chosen", item !== null);
      const rest = "Nothing is chosen yet: point at a latent or an observation.";
      this.panel.replaceChildren(item ? told[item.kind](item.k, S) : element("p", { className: "note" }, rest));
    }

    ask(text) {
      try {
        this.output.replaceChildren(answered(answer(parse(text, this.S), this.S), this.S));
        this.input.ariaInvalid = "false";
      } catch (error) {
        if (!(error instanceof InputError)) throw error;
        this.output.replaceChildren(element("p", { className: "error" }, error.message));
        this.input.ariaInvalid = "true";
      }
    }

    listen() {
      this.root.querySelector("button.go").addEventListener("click", () => this.ask(this.input.value));
      this.input.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.isComposing) this.ask(this.input.value);
        if (event.key === "Escape") {
          this.output.replaceChildren();
          this.input.ariaInvalid = "false";
        }
      });
      for (const example of this.root.querySelectorAll("button.example")) {
        example.addEventListener("click", () => {
          this.input.value = example.textContent;
          this.ask(this.input.value);
        });
      }
    }
  }

  for (const root of document.querySelectorAll(".explorer")) if (root.querySelector("script")) new Explorer(root);
}
