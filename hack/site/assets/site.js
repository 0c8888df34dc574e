// The search finds sections that have all words of the query, and shows where. If none has all, it takes those that have most.
(() => {
  const box = document.getElementById("search");
  const list = document.getElementById("results");
  const top = document.body.dataset.top;
  const shown = 12;
  const around = 70; // letters before and after the word that a snippet shows

  // rate counts the words that a section has, and how much they weigh: in a title ten times.
  const rate = (section, words) => {
    const title = `${section.page} ${section.title}`.toLowerCase();
    const text = section.text.toLowerCase();
    let has = 0;
    let weight = 0;
    for (const word of words) {
      const found = Math.min(text.split(word).length - 1, 5) + (title.includes(word) ? 10 : 0);
      has += found > 0 ? 1 : 0;
      weight += found;
    }
    return { section, has, weight };
  };

  // snippet is the text around the first word that the text has, with the words marked.
  const snippet = (text, words) => {
    const lower = text.toLowerCase();
    const at = words.map((word) => lower.indexOf(word)).filter((place) => place >= 0);
    const paragraph = document.createElement("p");
    if (at.length === 0) return paragraph;
    const begin = Math.max(0, Math.min(...at) - around);
    const end = Math.min(...at) + around;
    const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const parts = text.slice(begin, end).split(new RegExp(`(${escaped.join("|")})`, "i"));
    parts.forEach((part, i) => {
      const node = document.createElement(i % 2 ? "mark" : "span");
      node.textContent = part;
      paragraph.append(node);
    });
    if (begin > 0) paragraph.prepend("… ");
    if (end < text.length) paragraph.append(" …");
    return paragraph;
  };

  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    list.replaceChildren();
    list.hidden = words.length === 0;
    if (list.hidden) return;
    const rated = searchIndex.map((section) => rate(section, words)).filter((result) => result.has > 0);
    const most = Math.max(0, ...rated.map((result) => result.has));
    const found = rated
      .filter((result) => result.has === most)
      .sort((a, b) => b.weight - a.weight)
      .slice(0, shown);
    for (const { section } of found) {
      const link = document.createElement("a");
      link.href = top + section.url;
      link.textContent = section.title === section.page ? section.page : `${section.page}: ${section.title}`;
      const item = document.createElement("li");
      item.append(link, snippet(section.text, words));
      list.append(item);
    }
    if (found.length === 0) list.append("No page has one of these words.");
  };
  box.addEventListener("input", show);

  // Each block of code has a button that copies it. Of a console only the commands are copied.
  for (const block of document.querySelectorAll("main pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      const lines = block.querySelector("code").textContent.split("\n");
      const commands = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
      await navigator.clipboard.writeText(commands.length > 0 ? commands.join("\n") + "\n" : lines.join("\n"));
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 2000);
    });
    const frame = document.createElement("div");
    frame.className = "code";
    block.replaceWith(frame);
    frame.append(block, button);
  }

  // On a narrow screen the list of pages is closed at first.
  if (matchMedia("(max-width: 900px)").matches) document.querySelector("nav.pages details").open = false;
})();
