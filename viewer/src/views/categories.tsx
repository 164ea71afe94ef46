// SPDX-License-Identifier: Apache-2.0
//
// Live bytes by category at the moment: the legend of the colours, and a filter for all views.
import { cssColor } from "../model/colors.ts";
import { formatBytes, formatShare } from "../model/format.ts";
import { bytesByCategory } from "../model/stack_use.ts";
import { client, coloring, hasCategories, moment, shown } from "../session.ts";
import { category, documentNumber } from "../state.ts";
import { theme } from "../theme.ts";
import { toggleCategory } from "./timeline_gestures.ts";
import { useRequest } from "./use_request.ts";

export function Categories() {
  const [number, at] = [documentNumber.value, moment.value];
  const { value } = useRequest(() => client.peek()!.stackBytes(number, at), `${number} ${at}`);
  if (!value || !hasCategories.value) return null;
  const names = shown.value!.categories;
  const bytes = bytesByCategory(value, names.length);
  const total = bytes.reduce((sum, each) => sum + each, 0);
  const listed = [...names.keys()].filter((each) => bytes[each] > 0 || each === category.value);
  return (
    <section class="holders categories">
      <h2>Categories</h2>
      <ol>
        {listed.map((each) => (
          <li key={each}>
            <button
              type="button"
              aria-pressed={category.value === each}
              data-category={names[each]}
              onClick={() => toggleCategory(each)}
              title="Show only this category"
            >
              <i
                class="swatch"
                style={{ background: cssColor(coloring.value.category.of(each, theme.value)) }}
              />
              <span class="name">{names[each]}</span>
              <span class="number">{formatBytes(bytes[each])}</span>
              <small>{formatShare(bytes[each], total)}</small>
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}
