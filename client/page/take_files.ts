/** Lets a text field be filled from a file: chosen with its button or dropped on it. */

/** @param changed called once the text of a file stands in the field. */
export function takeFiles(field: HTMLTextAreaElement, changed: () => void): void {
  const chooser = document.querySelector<HTMLInputElement>(`input[type=file][data-for="${field.id}"]`)!
  const take = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return
    field.value = await file.text()
    changed()
  }
  chooser.addEventListener('change', () => void take(chooser.files?.[0]))
  field.addEventListener('dragover', (event) => event.preventDefault())
  field.addEventListener('drop', (event) => {
    const file = event.dataTransfer?.files[0]
    if (file === undefined) return
    event.preventDefault()
    void take(file)
  })
}
