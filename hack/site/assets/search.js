// Finds the pages that have all words of the query. A word in the title counts ten times.
(() => {
  const box = document.getElementById("search");
  const list = document.getElementById("results");
  const top = document.body.dataset.top;

  const score = (page, words) => {
    const title = page.title.toLowerCase();
    const text = page.text.toLowerCase();
    let sum = 0;
    for (const word of words) {
      const found = text.split(word).length - 1 + (title.includes(word) ? 10 : 0);
      if (found === 0) return 0;
      sum += found;
    }
    return sum;
  };

  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    list.replaceChildren();
    list.hidden = words.length === 0;
    if (list.hidden) return;
    const found = searchIndex
      .map((page) => ({ page, score: score(page, words) }))
      .filter((result) => result.score > 0)
      .sort((a, b) => b.score - a.score)
      .slice(0, 12);
    for (const { page } of found) {
      const link = document.createElement("a");
      link.href = top + page.url;
      link.textContent = page.title;
      const item = document.createElement("li");
      item.append(link);
      list.append(item);
    }
    if (found.length === 0) list.append("No page has all of these words.");
  };
  box.addEventListener("input", show);
})();
