# SPDX-License-Identifier: Apache-2.0
"""Pictures of measurements: bars in groups, by gnuplot."""
import shutil
import subprocess


def panel_words(k, panel):
    """gnuplot's words for one panel: its data, and what draws them."""
    title, unit, bars, groups = panel
    lines = [" ".join(["group", *(f'"{bar}"' for bar in bars)])]
    lines += [" ".join([f'"{group}"', *(f"{value:.4f}" for value in values)]) for group, values in groups.items()]
    return f"$panel{k} << EOD\n" + "\n".join(lines) + "\nEOD\n", \
        f'set title "{title}"\nset ylabel "{unit}"\n' \
        f"plot for [k=2:{len(bars) + 1}] $panel{k} using k:xtic(1) title columnheader(k)\n"


def draw_bars(panels, path):
    """Panels, one below the other. Each is (title, unit, names of the bars, {group: a value for each bar})."""
    if not shutil.which("gnuplot"):
        print(f"{path} is not drawn: apt-get install gnuplot-nox")
        return
    data, plots = zip(*(panel_words(k, panel) for k, panel in enumerate(panels)))
    text = "".join(data) + f"""
set encoding utf8
set terminal pngcairo noenhanced size 1200,{480 * len(panels)} font "sans,10"
set output "{path}"
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 noborder
set xtics rotate by -30
set yrange [0:*]
set grid y
set key outside right top
set multiplot layout {len(panels)},1
""" + "".join(plots) + "unset multiplot\n"
    subprocess.run(["gnuplot"], input=text, text=True, check=True)
