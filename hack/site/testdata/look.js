// Opens each of the pages in a frame that is 390 pixels wide, as a phone is, and reports what is wider.
(async () => {
  const width = 390;
  const result = { Pages: 0, Wide: [], Found: {}, Snippet: "" };
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 844px; border: 0`;
  document.body.append(frame);

  const open = (page) =>
    new Promise((resolve) => {
      frame.onload = () => resolve(frame.contentDocument);
      frame.src = "/" + page;
    });

  try {
    for (const page of pages) {
      const shown = await open(page);
      result.Pages++;
      const root = shown.documentElement;
      if (root.scrollWidth > width) result.Wide.push(`${page}: the page, ${root.scrollWidth} pixels`);
      for (const table of shown.querySelectorAll("table")) {
        const right = Math.max(table.getBoundingClientRect().right, table.getBoundingClientRect().left + table.scrollWidth);
        if (right > width) result.Wide.push(`${page}: a table, ${right} pixels`);
      }
    }
    const shown = await open("index.html");
    const box = shown.getElementById("search");
    for (const words of searches) {
      box.value = words;
      box.dispatchEvent(new Event("input"));
      result.Found[words] = [...shown.querySelectorAll("#results a")].map((link) => link.textContent);
      result.Snippet = shown.querySelector("#results mark")?.textContent ?? "";
    }
  } catch (error) {
    result.Error = String(error);
  }
  await fetch("/result", { method: "POST", body: JSON.stringify(result) });
})();
