// Start-up: what stands at the top of the page, and the first episode.

// How the evaluation ended whose episodes these are.
function resultFacts() {
  const {policy, success, return_mean: mean, errors} = head.result;
  const percent = (share) => formatNumber(100 * share, 1);
  return [
    policy && `policy ${policy}`,
    success && `success ${percent(success[0])} % (${percent(success[1])} to ${percent(success[2])})`,
    mean !== undefined && `mean return ${formatNumber(mean)}`,
    errors ? `${errors} errored` : "",
  ].filter(Boolean);
}

function start() {
  document.getElementById("name").textContent = head.name;
  const updates = rows.map((row) => row.update).filter((update) => update >= 0);
  const span = [...new Set([Math.min(...updates), Math.max(...updates)])];
  const about = [head.env, head.recipe, head.model, ...resultFacts(), updates.length && !head.result.policy ? `update${span.length > 1 ? "s" : ""} ${span.join(" to ")}` : ""];
  document.getElementById("facts").textContent = about.filter(Boolean).join(" · ");
  const notes = document.getElementById("notes");
  notes.replaceChildren(...head.notes.map((note) => el("li", {}, note)));
  notes.hidden = !head.notes.length;
  for (const name of ["stop", "env", "agent"]) fillSelect(name, table[name].names);
  table.several = fillUpdates();
  drawColumns(table.several);
  const list = document.getElementById("list");
  list.classList.toggle("several", table.several);
  list.classList.toggle("agents", hasAgents);
  for (const name of ["logprob", "advantage"]) list.classList.toggle(`no-${name}`, rows.every((row) => row[name] === null));
  updateCount();
  drawRows();
  selectRow(linkedRow() ?? rows[0], Boolean(linkedRow()));
  listing.focus({preventScroll: true});
}

start();
