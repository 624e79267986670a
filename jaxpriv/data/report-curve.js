(function(){var data=JSON.parse(document.getElementById('data').textContent);
var slider=document.getElementById('slider'),said=document.getElementById('said');
var point=document.getElementById('point');function number(name){return parseFloat(point.dataset[name]);}
function show(){var one=data[slider.value];
point.setAttribute('cx',number('left')+number('wide')*one[0]/number('right'));
point.setAttribute('cy',number('zero')-number('tall')*one[1]/number('top'));
said.textContent=one[2];
slider.setAttribute('aria-valuetext',said.textContent);}
slider.addEventListener('input',show);show();})();
