"use strict";
// Draws the charts when they come near the window, and again when a reader switches their axis, series or groups.
(() => {
  const plotly = window.Plotly;
  const config = {
    responsive: true,
    // Its buttons would be controls inside what is announced as an image.
    displayModeBar: false,
  };
  // A finger that drags scrolls the page; a mouse that drags zooms the plot.
  const dragmode = window.matchMedia("(pointer: coarse)").matches ? false : "zoom";

  function setUp(figure) {
    const data = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
    const plots = [...figure.querySelectorAll(".plot")];
    const inputs = (name) => [...figure.querySelectorAll(`input[data-${name}]`)];
    const visible = data.panels.map((panel) => panel.series.map((series) => series.shown));
    let drawn = false;
    let resets = 0;

    const checked = (name, value) => {
      const input = inputs(name).find((each) => each.dataset[name] === value);
      return input === undefined || input.checked;
    };

    // The axis that was asked for, or a panel's first where it has no such axis or none was.
    function axisOf(panel) {
      const asked = inputs("axis").find((input) => input.checked);
      return asked && asked.dataset.axis in panel.axes ? asked.dataset.axis : Object.keys(panel.axes)[0];
    }

    function draw() {
      data.panels.forEach((panel, index) => {
        const axis = axisOf(panel);
        const layout = structuredClone(panel.layout);
        if (!panel.horizontal) layout.xaxis.title = { text: panel.axes[axis] };
        layout.dragmode = dragmode;
        layout.uirevision = `${axis} ${resets}`; // a zoom outlasts what is switched on and off, but not its axis
        plotly.react(plots[index], tracesOf(panel, axis, visible[index]), layout, config);
        plots[index].setAttribute("aria-label", `${panel.description}, against ${plain(panel.axes[axis])}`);
      });
      drawn = true;
    }

    function refresh() {
      if (drawn) draw();
    }

    // A series is seen when both its label and its group are on; what neither was touched of stays as it was.
    function switched(name, other, input) {
      data.panels.forEach((panel, index) => {
        panel.series.forEach((series, place) => {
          if (series[name] === input.dataset[name]) {
            visible[index][place] = input.checked && checked(other, series[other]);
          }
        });
      });
    }

    for (const input of inputs("axis")) input.addEventListener("change", refresh);
    for (const [name, other] of [["label", "group"], ["group", "label"]]) {
      for (const input of inputs(name)) {
        input.addEventListener("change", () => {
          switched(name, other, input);
          refresh();
        });
      }
    }
    for (const button of figure.querySelectorAll("button[data-every]")) {
      button.addEventListener("click", () => {
        for (const input of inputs("label")) {
          input.checked = button.dataset.every === "on";
          switched("label", "group", input);
        }
        refresh();
      });
    }
    figure.querySelector("button[data-reset]").addEventListener("click", () => {
      resets += 1;
      refresh();
    });
    figure.querySelector("button[data-csv]").addEventListener("click", () => save(`${data.name}.csv`, csvOf(data)));
    return () => drawn || draw();
  }

  function tracesOf(panel, axis, visible) {
    const bands = [];
    const marks = [];
    panel.series.forEach((series, place) => {
      const x = panel.positions[series.x[axis]];
      const shared = { name: series.name, legendgroup: series.label, visible: visible[place] };
      if (series.kind === "line" && series.low) {
        bands.push({
          ...shared, ...bandOf(x, series.low, series.high), type: "scatter", mode: "lines", fill: "toself",
          fillcolor: series.color + "2e", line: { width: 0 }, hoverinfo: "skip",
        });
      }
      const trace = { ...shared, x, y: series.y, ...looksOf(series, panel.points), ...hoverOf(series, panel) };
      marks.push(panel.horizontal ? lying(trace) : trace);
    });
    return [...bands, ...marks];
  }

  const pointLooks = {
    large: { marker: { size: 8 }, errors: { thickness: 1.5, width: 3 } },
    small: { marker: { size: 3 }, errors: { thickness: 0.5, width: 0 } },
    ticks: { marker: { size: 6, symbol: "line-ns-open", line: { width: 0.5 } }, errors: {} },
  };

  function looksOf(series, points) {
    const errors = series.low && {
      type: "data", symmetric: false, color: series.color, ...pointLooks[points].errors,
      array: series.y.map((y, i) => difference(series.high[i], y)),
      arrayminus: series.y.map((y, i) => difference(y, series.low[i])),
    };
    const marker = { color: series.color, symbol: series.symbol, ...pointLooks[points].marker };
    if (series.kind === "points") {
      return { type: "scatter", mode: "markers", marker, error_y: errors || {}, offsetgroup: series.name };
    }
    const few = { ...marker, size: 6, maxdisplayed: 8 };
    return { type: "scatter", mode: series.marked ? "lines+markers" : "lines", line: series.line, marker: few };
  }

  // The same with the axes exchanged, for forest plots.
  function lying({ x, y, error_y: errors, ...rest }) {
    return { ...rest, x: y, y: x, error_x: errors, orientation: "h" };
  }

  function hoverOf(series, panel) {
    if (panel.layout.yaxis.ticktext && !panel.horizontal) return { hoverinfo: "skip" }; // its names are on the axis
    const x = panel.layout.xaxis.ticktext || panel.horizontal ? "" : "%{x:,}: ";
    const y = panel.horizontal ? "x" : "y";
    const edges = series.low ? " [%{customdata[0]:.4g}, %{customdata[1]:.4g}]" : "";
    return {
      customdata: series.low && series.low.map((low, i) => [low, series.high[i]]),
      hovertemplate: `<b>${series.name}</b><br>${x}%{${y}:.4g}${edges}<extra></extra>`,
    };
  }

  // A closed outline for each stretch of points that have both edges.
  function bandOf(x, low, high) {
    const outline = { x: [], y: [] };
    let stretch = [];
    for (let i = 0; i <= x.length; i += 1) {
      if (i < x.length && x[i] !== null && low[i] !== null && high[i] !== null) {
        stretch.push(i);
      } else if (stretch.length) {
        const back = [...stretch].reverse();
        outline.x.push(...stretch.map((j) => x[j]), ...back.map((j) => x[j]), null);
        outline.y.push(...stretch.map((j) => high[j]), ...back.map((j) => low[j]), null);
        stretch = [];
      }
    }
    return outline;
  }

  const difference = (upper, lower) => (upper === null || lower === null ? null : Math.max(0, upper - lower));

  // The label of an axis without plotly's markup.
  const plain = (text) => new DOMParser().parseFromString(text.replaceAll("<br>", " "), "text/html").body.textContent;

  function csvOf(data) {
    const axes = [...new Set(data.panels.flatMap((panel) => Object.keys(panel.axes)))];
    const rows = [["panel", "series", "group", ...axes, "y", "low", "high"]];
    for (const panel of data.panels) {
      for (const series of panel.series) {
        series.y.forEach((y, i) => {
          const x = axes.map((axis) => (axis in panel.axes ? panel.positions[series.x[axis]][i] : null));
          rows.push([panel.title, series.label, series.group, ...x, y, series.low?.[i], series.high?.[i]]);
        });
      }
    }
    return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
  }

  function cell(value) {
    const text = String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function save(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // Images are open for readers without scripts; the others have the plots, and open them if they want.
  for (const image of document.querySelectorAll("details.image")) {
    image.open = false;
    image.dataset.ready = "";
  }

  const figures = new Map([...document.querySelectorAll("figure[data-chart]")].map((each) => [each, setUp(each)]));
  const drawAll = () => figures.forEach((drawOnce) => drawOnce());
  window.addEventListener("beforeprint", drawAll);
  if ("IntersectionObserver" in window) {
    const near = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) {
          near.unobserve(entry.target);
          figures.get(entry.target)();
        }
      }
    }, { rootMargin: "600px" });
    figures.forEach((_, figure) => near.observe(figure));
  } else {
    drawAll();
  }
})();
