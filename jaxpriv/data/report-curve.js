(function(){var data=JSON.parse(document.getElementById('data').textContent);
var slider=document.getElementById('slider'),said=document.getElementById('said');
var point=document.getElementById('point');function number(name){return parseFloat(point.dataset[name]);}
function show(){var one=data[slider.value];
point.setAttribute('cx',number('left')+number('wide')*one[0]/number('right'));
point.setAttribute('cy',number('zero')-number('tall')*one[2]/number('top'));
said.textContent='Mean distortion '+one[3]+': the least leakage lies between '+one[4]+' and '+one[5]+' nats.';
slider.setAttribute('aria-valuetext',said.textContent);}
slider.addEventListener('input',show);show();})();
