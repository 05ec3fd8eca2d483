for (const button of document.querySelectorAll("button.save")) {
  const table = button.closest(".table").querySelector("table");
  const number = (words) => !Number.isNaN(Number(words)) || /^[+-]?(inf|nan)$/.test(words);
  const formula = (words) => /^[=+\-@\t\r]/.test(words) && !number(words);
  const written = (cell) => {
    const exact = cell.dataset.exact ?? cell.textContent;
    const words = formula(exact) ? `'${exact}` : exact;
    return /[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  const save = () => {
    const lines = Array.from(table.rows, (row) => Array.from(row.cells, written).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\r\n"), "\r\n"], { type: "text/csv;charset=utf-8" }));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };
  button.addEventListener("click", save);
  button.hidden = false;
}
