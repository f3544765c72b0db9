"use strict";
// Opens what the address points to, and everything for print; copies images into cards.
(() => {
  function nameIn(hash) {
    try {
      return decodeURIComponent(hash.slice(1));
    } catch {
      return hash.slice(1);
    }
  }

  function reveal() {
    const target = document.getElementById(nameIn(window.location.hash));
    if (!target) return;
    for (let box = target; box; box = box.parentElement) {
      if (box.tagName === "DETAILS") box.open = true;
    }
    target.scrollIntoView();
  }

  window.addEventListener("hashchange", reveal);
  window.addEventListener("load", reveal);
  document.addEventListener("click", (event) => {
    // A second click on the same link does not change the address.
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === window.location.hash) reveal();
  });

  // Cards show the figures of their sections, small: each image is in the file once.
  for (const small of document.querySelectorAll("img[data-image]")) {
    const whole = document.getElementById(small.dataset.image)?.querySelector("details.image img");
    if (whole) small.src = whole.src;
  }

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.folded:not([open])")];
    for (const each of opened) each.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
    opened = [];
  });
})();
