// SPDX-License-Identifier: Apache-2.0
//
// Advice about a finding, at the top of a view.

export function WhatToDo({ sentences }: { sentences: string[] }) {
  if (sentences.length === 0) return null;
  return (
    <section class="what-to-do" data-advice>
      <h2>What to do</h2>
      <ul>
        {sentences.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
    </section>
  );
}
