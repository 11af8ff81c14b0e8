// The page works without this; it adds a filter, copy buttons and a choice of light or dark.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  const remember = (name, value) => {
    try {
      if (value === undefined) return localStorage.getItem(name);
      localStorage.setItem(name, value);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    return null;
  };

  const theme = remember("atoll-theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remember("atoll-theme", root.dataset.theme);
  });

  const filter = document.getElementById("filter");
  const blocks = [...document.querySelectorAll("[data-search]")];
  const groups = [...document.querySelectorAll("[data-group]")];
  const nothing = document.getElementById("nothing");
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const block of blocks) {
      block.hidden = !words.every((word) => block.dataset.search.includes(word));
      if (!block.hidden) shown += 1;
    }
    for (const group of groups) {
      group.hidden = !group.querySelector("[data-search]:not([hidden])");
    }
    nothing.hidden = shown > 0;
  };
  filter.addEventListener("input", apply);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== filter) {
      event.preventDefault();
      filter.focus();
    } else if (event.key === "Escape" && document.activeElement === filter) {
      filter.value = "";
      apply();
      filter.blur();
    }
  });

  for (const code of document.querySelectorAll(".code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    code.append(button);
  }

  const links = new Map([...document.querySelectorAll("nav a[href^='#']")]
    .map((link) => [link.hash.slice(1), link]));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || !links.has(entry.target.id)) continue;
      document.querySelector("nav a[aria-current]")?.removeAttribute("aria-current");
      const link = links.get(entry.target.id);
      link.setAttribute("aria-current", "true");
      const side = link.closest("nav");
      if (link.offsetTop < side.scrollTop || link.offsetTop > side.scrollTop + side.clientHeight - 60) {
        side.scrollTop = link.offsetTop - side.clientHeight / 2;
      }
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const article of document.querySelectorAll("article[id]")) watcher.observe(article);
})();
