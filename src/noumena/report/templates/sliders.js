
for (const slider of document.querySelectorAll(".slider")) {
  const [frame, output, strip, input] = [".frame", "output", "img", "input"].map((part) => slider.querySelector(part));
  const values = slider.dataset.values.split(" ");
  const show = () => {
    frame.style.backgroundPosition = `${(100 * input.value) / (values.length - 1)}% 0`;
    output.value = `= ${values[input.value]}`;
    input.setAttribute("aria-valuetext", values[input.value]);
  };
  frame.style.backgroundImage = `url(${strip.src})`;
  frame.classList.toggle("coarse", strip.classList.contains("coarse"));
  for (const part of [frame, output, input]) part.hidden = false;
  input.addEventListener("input", show);
  show();
}
