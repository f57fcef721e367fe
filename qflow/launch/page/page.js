// Page: what a page of the site says where it is opened from a folder. JupyterLab, and Python, need a server there.
if (location.protocol === "file:") {
  for (const link of document.querySelectorAll("a.live")) {
    link.textContent = "make it live: how";
    link.href = `${document.querySelector("a.home")?.getAttribute("href") ?? ""}#live`;
  }
}
