// SPDX-License-Identifier: Apache-2.0
#include "worker/plan_page.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "base/proc_file.hpp"
#include "base/units.hpp"
#include "interop/json.hpp"

namespace surefit::worker {
namespace {

constexpr const char* kPage = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Memory plan</title>
<style>
body{font:14px/1.45 system-ui,sans-serif;margin:24px auto;max-width:1100px;color:#1d2433;background:#fff}
h1{font-size:20px;margin:0 0 4px} h2{font-size:15px;margin:26px 0 6px} p{margin:4px 0;color:#4b5567}
table{border-collapse:collapse;margin-top:8px} td,th{padding:3px 14px 3px 0;text-align:left} td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
canvas{width:1100px;height:300px;border:1px solid #d6dbe4;display:block} #arena{height:420px}
#tip{position:fixed;pointer-events:none;background:#1d2433;color:#fff;padding:6px 9px;border-radius:4px;font-size:12.5px;display:none;max-width:420px;white-space:pre-line}
.key span{display:inline-block;margin-right:14px} .key i{display:inline-block;width:11px;height:11px;margin-right:5px;vertical-align:-1px}
</style></head><body>
<h1 id="title"></h1><p id="line"></p><div id="table"></div>
<h2>Memory over one step</h2><p>Each column is one operation; the height is what the process holds while it runs.</p>
<div class="key" id="key"></div><canvas id="time" width="2200" height="600"></canvas>
<h2>The arena: when (across) and where (up) each buffer lies</h2><canvas id="arena" width="2200" height="840"></canvas>
<div id="tip"></div>
<script>
const D = /*DATA*/;
const color = {weights:'#3b6fb6',gradients:'#d98032','optimizer state':'#7a5fb0',activations:'#3f9d6b','data buffers':'#c9a227',scratch:'#9aa4b2',runtime:'#5b6472','checkpoint staging':'#b45a7a'};
const fmtB = b => b>=2**30?(b/2**30).toFixed(2)+' GiB':b>=2**20?(b/2**20).toFixed(1)+' MiB':(b/1024).toFixed(1)+' KiB';
const el = id => document.getElementById(id);
el('title').textContent = 'Memory plan: '+D.model+', batch '+D.batch+', '+D.threads+' thread'+(D.threads>1?'s':'');
el('line').textContent = D.line;
const esc = s => s.replace(/[&<>]/g, c => ({'&':'&amp;','<':'&lt;','>':'&gt;'}[c]));
el('table').innerHTML = '<table><tr><th>category</th><th class="n">at the peak</th></tr>'+D.categories.map(c=>'<tr><td>'+esc(c[0])+'</td><td class="n">'+fmtB(c[1])+'</td></tr>').join('')+'<tr><th>predicted peak</th><th class="n">'+fmtB(D.predicted)+'</th></tr></table>';
const cats = ['runtime','weights','optimizer state','checkpoint staging','data buffers','gradients','activations','scratch'];
el('key').innerHTML = cats.map(c=>'<span><i style="background:'+color[c]+'"></i>'+c+'</span>').join('')+(D.budget?'<span><i style="background:#c0392b"></i>budget '+fmtB(D.budget)+'</span>':'');
const n = D.steps.length, base = {}; D.outside.forEach(o=>base[o[0]]=(base[o[0]]||0)+o[1]);
const cols = Array.from({length:n},()=>Object.assign({},base));
D.buffers.forEach(b=>{for(let i=b[4];i<=b[5];i++) cols[i][b[2]]=(cols[i][b[2]]||0)+b[3]});
const totals = cols.map(c=>cats.reduce((s,k)=>s+(c[k]||0),0));
const most = Math.max(...totals, D.predicted, D.budget && D.budget < 1.6*D.predicted ? D.budget : 0)*1.06;
const T = el('time'), t = T.getContext('2d'), L=150, W=T.width-L-20, H=T.height-40;
t.font='22px system-ui'; t.textAlign='right';
for(let k=0;k<=4;k++){const v=most*k/4, y=20+H-H*k/4; t.strokeStyle='#e6e9ef'; t.beginPath(); t.moveTo(L,y); t.lineTo(L+W,y); t.stroke(); t.fillStyle='#4b5567'; t.fillText(fmtB(v),L-10,y+7)}
cols.forEach((c,i)=>{let y=20+H; cats.forEach(k=>{const h=(c[k]||0)/most*H; if(h>0){t.fillStyle=color[k]; t.fillRect(L+i*W/n,y-h,Math.max(1,W/n+0.5),h)} y-=h})});
if(D.budget && D.budget<most){const y=20+H-D.budget/most*H; t.strokeStyle='#c0392b'; t.lineWidth=3; t.beginPath(); t.moveTo(L,y); t.lineTo(L+W,y); t.stroke()}
const A = el('arena'), a = A.getContext('2d'), AH=A.height-40;
a.font='22px system-ui'; a.textAlign='right'; a.fillStyle='#4b5567';
for(let k=0;k<=4;k++) a.fillText(fmtB(D.arena*k/4),L-10,20+AH-AH*k/4+7);
const rect = b => [L+b[4]*W/n, 20+AH-(b[6]+b[3])/D.arena*AH, Math.max(1,(b[5]-b[4]+1)*W/n), b[3]/D.arena*AH];
D.buffers.forEach(b=>{const r=rect(b); a.fillStyle=color[b[2]]; a.globalAlpha=.85; a.fillRect(...r); a.globalAlpha=1; a.strokeStyle='#fff'; a.lineWidth=1; if(r[3]>3&&r[2]>3) a.strokeRect(...r)});
const tip = el('tip'), show=(e,s)=>{tip.textContent=s; tip.style.display='block'; tip.style.left=Math.min(e.clientX+14,innerWidth-440)+'px'; tip.style.top=(e.clientY+14)+'px'};
const at = (c,e)=>{const r=c.getBoundingClientRect(); return [(e.clientX-r.left)*c.width/r.width,(e.clientY-r.top)*c.height/r.height]};
T.onmousemove=e=>{const [x]=at(T,e), i=Math.floor((x-L)/W*n); if(i<0||i>=n){tip.style.display='none';return} show(e,'step '+(i+1)+' of '+n+': '+D.steps[i]+'\n'+fmtB(totals[i])+'\n'+cats.filter(k=>cols[i][k]).map(k=>k+' '+fmtB(cols[i][k])).join('\n'))};
A.onmousemove=e=>{const [x,y]=at(A,e); const hit=D.buffers.filter(b=>{const r=rect(b); return x>=r[0]&&x<=r[0]+r[2]&&y>=r[1]&&y<=r[1]+r[3]}).pop(); if(!hit){tip.style.display='none';return} show(e,hit[1]+'\n'+hit[2]+', '+fmtB(hit[3])+'\nfrom: '+D.steps[hit[4]]+'\nto: '+D.steps[hit[5]])};
T.onmouseleave=A.onmouseleave=()=>tip.style.display='none';
</script></body></html>
)page";

}  // namespace

std::string plan_page(const MemoryPlan& plan, const MemoryReport& report,
                      const std::string& model) {
  Json data = {{"model", model},
               {"batch", plan.main.batch},
               {"threads", plan.main.threads},
               {"line", report.to_text()},
               {"predicted", report.predicted_bytes},
               {"arena", std::max<std::size_t>(1, plan.arena_bytes())},
               {"budget", report.budget_bytes == kNoLimit ? 0 : report.budget_bytes},
               {"categories", Json::array()},
               {"outside", Json::array()},
               {"buffers", Json::array()},
               {"steps", Json::array()}};
  for (const auto& [name, bytes] : report.categories) data["categories"].push_back({name, bytes});
  for (const LedgerEntry& entry : plan.ledger) {
    // What is of a step is drawn buffer by buffer.
    if (!entry.of_step) data["outside"].push_back({name_of(entry.category), entry.bytes});
  }
  for (std::size_t i = 0; i < plan.main.buffers.size(); ++i) {
    const Buffer& b = plan.main.buffers[i];
    if (b.persistent || b.bytes == 0) continue;
    data["buffers"].push_back(
        {static_cast<int>(i), b.name, name_of(b.category), b.bytes, b.first, b.last, b.offset});
  }
  for (const Instance& instance : plan.main.instances) {
    const char* how = instance.action == Action::kSpill    ? "spill "
                      : instance.action == Action::kFetch  ? "fetch "
                      : instance.action == Action::kShrink ? "shrink "
                      : instance.action == Action::kExpand ? "expand "
                      : instance.again                     ? "again "
                                                           : "";
    data["steps"].push_back(fmt::format("{}{} {}", how, instance.layer, instance.kind));
  }
  std::string json = dump_json(data);
  // A layer may be called anything; the page must not end inside its name.
  for (std::size_t at = 0; (at = json.find("</", at)) != std::string::npos; at += 3)
    json.replace(at, 2, "<\\/");
  std::string page = kPage;
  const std::string mark = "/*DATA*/";
  page.replace(page.find(mark), mark.size(), json);
  return page;
}

}  // namespace surefit::worker
